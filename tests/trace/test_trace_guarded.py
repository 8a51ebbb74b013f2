"""Guarded launches: the first bad address becomes an error with line, thread, array and index."""

# ruff: noqa: E501 (texts of kernels and messages)

import threading

import numpy as np
import pytest

from common import cuda

LOOP = """extern "C" __global__ void k(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i + 1];
}
"""
BARRIER = """extern "C" __global__ void k(const float* in, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    if (t < n) out[t - 2] = s[63 - t];
    __syncthreads();
}
"""
SHARED = """extern "C" __global__ void k(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    tile[n * threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
"""


def launch(source: str, n: float, shared: int = 0) -> np.ndarray:
    out = np.zeros(64, np.float32)
    inputs = np.arange(60 if source == LOOP else 64, dtype=np.float32)
    cuda.RawKernel(source, "k")((1,), (64,), (inputs, out, n), shared_mem=shared)
    return out


@pytest.mark.parametrize(
    ("source", "n", "shared", "says"),
    [
        (LOOP, 60, 0, r"k: out-of-bounds, line 4: thread \(59, 0, 0\) of block \(0, 0, 0\) reads in\[60\], but in has 60 elements"),
        (BARRIER, 2, 0, r"line 6: thread \(0, 0, 0\) of block \(0, 0, 0\) writes out\[-2\].*seen 2 times"),
        (SHARED, 2, 256, r"line 3: thread \(32, 0, 0\) of block \(0, 0, 0\) writes tile\[64\]"),
    ],
)  # fmt: skip
def test_bad_addresses_are_errors(source: str, n: int, shared: int, says: str) -> None:
    with cuda.guarded(), pytest.raises(cuda.KernelError, match=says):
        launch(source, n, shared)


def test_correct_launches_are_as_ever() -> None:
    plain = launch(LOOP, 59)
    with cuda.guarded():
        np.testing.assert_array_equal(launch(LOOP, 59), plain)


def test_contexts_nest_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    launch(LOOP, 60)  # (a read right behind the end goes unseen)
    with cuda.guarded():
        with cuda.guarded(False):
            launch(LOOP, 60)
        with pytest.raises(cuda.KernelError):
            launch(LOOP, 60)
    with pytest.raises(ZeroDivisionError), cuda.guarded():
        raise ZeroDivisionError
    launch(LOOP, 60)
    monkeypatch.setenv("COURSE_GUARDED", "1")
    with pytest.raises(cuda.KernelError):
        launch(LOOP, 60)
    with cuda.guarded(False):
        launch(LOOP, 60)
    monkeypatch.setenv("COURSE_GUARDED", "0")
    launch(LOOP, 60)


def test_each_thread_of_python_has_its_own() -> None:
    outcomes = []

    def other() -> None:
        launch(LOOP, 60)
        outcomes.append("unguarded")

    with cuda.guarded():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with pytest.raises(cuda.KernelError):
            launch(LOOP, 60)
    assert outcomes == ["unguarded"]


def test_other_faults_are_the_errors_they_were() -> None:
    trap = 'extern "C" __global__ void k(const float* in, float* out, int n) { if (n == 5) __trap(); }'
    wait = ('extern "C" __global__ void k(const float* in, float* out, int n) '
            "{ if (threadIdx.x < 16) __shfl_sync(0xffffffffu, n, 0); else __syncthreads(); }")  # fmt: skip
    with cuda.guarded():
        with pytest.raises(cuda.KernelError, match="__trap"):
            launch(trap, 5)
        with pytest.raises(cuda.KernelError, match="deadlock"):
            launch(wait, 5)
        with pytest.raises(TypeError):
            launch(LOOP, 1.5)
        launch(trap, 6)
