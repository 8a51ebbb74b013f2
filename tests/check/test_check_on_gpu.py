"""After the trace the same launch runs on the GPU, and must leave there what the simulator left.

Where there is no GPU the simulator stands in for it, without the trace: all but the hardware is tried out.
"""

import numpy as np
import pytest

from common import check, cuda
from common.check import Wrong, gpu, launch

on_gpu = pytest.mark.skipif(cuda.backend() != "gpu", reason="runs answers on a GPU: kernels are simulated here")

# what NVRTC, or its stand-in, makes of the answer and the simulator does not
ELSEWHERE = "#ifdef __CUDACC_RTC__\n    {}\n#endif\n"

KERNEL = """extern "C" __global__ void add_to(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += in[i];
BODY}
"""


@pytest.fixture
def beside(monkeypatch):
    """A GPU, or the simulator in its place; gives a list of the launches that it ran, as their options."""
    made, raw = [], cuda.RawKernel

    def compiled(source, name, options):
        made.append(options)
        more = () if cuda_is_real else ("-D__CUDACC_RTC__",)
        return raw(source, name, options=(*options, *more))

    cuda_is_real = cuda.backend() == "gpu"
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(cuda, "RawKernel", compiled)
    return made


def run(body="", n=77, **more):
    x, out = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    launch(KERNEL.replace("BODY", body), "add_to", (1,), (128,), (x, out, n), what="add_to", updated=(out,), **more)
    return x, out


def test_both_begin_with_the_same_arrays(beside):
    x, out = run()  # it adds to out: a second run over the first one's result would differ
    assert len(beside) == 1
    assert type(out) is np.ndarray and np.array_equal(out, x + 0.5)


def test_what_differs_there_is_told(beside):
    with pytest.raises(Wrong) as caught:
        run(ELSEWHERE.format("if (i == 7) out[i] = 3.0f;"))
    told = caught.value
    assert told.what == (
        "add_to: on the GPU out[7] is 3.0, expected 7.5 (1 of 77 elements differ), as the simulator has it"
    )
    assert "an order that is only likely" in told.hint
    with pytest.raises(Wrong) as caught:
        run(ELSEWHERE.format("if (i == 7) out[i] = 3.0f;"), hints={"gpu": "who comes first?"})
    assert caught.value.hint == "who comes first?"


def test_the_check_has_the_first_word(beside):
    other = ELSEWHERE.format("if (i == 7) out[i] = 3.0f;")
    with pytest.raises(Wrong, match="its own") as caught, gpu.after_checks():
        run(other)
        raise Wrong("its own", "")
    with pytest.raises(Wrong, match=r"on the GPU out\[7\]"), gpu.after_checks():
        run(other, n=76)
        run(other, n=77)
    with gpu.after_checks():
        run()
    assert caught.value.what == "its own"


def test_nan_and_inputs_are_compared_too(beside):
    with pytest.raises(Wrong, match=r"out\[5\] is nan, expected 5.5"):
        run(ELSEWHERE.format("if (i == 5) out[i] = 0.0f / 0.0f;"))
    with pytest.raises(Wrong, match=r"in\[9\] is -1.0, expected 9.0"):
        run(ELSEWHERE.format("if (i == 9) ((float*)in)[i] = -1.0f;"))


@pytest.mark.parametrize(("dtype", "fine", "wrong"), [("float", 1e-5, 1e-3), ("__half", 2e-3, 5e-2)])
def test_rounding_is_no_mistake(beside, dtype, fine, wrong):
    source = """#include "vec.h"
extern "C" __global__ void k(scalar_t* out) { float x = threadIdx.x + 1;
#ifdef __CUDACC_RTC__
    x *= 1.0f + (float)OFF;
#endif
    out[threadIdx.x] = (scalar_t)x; }"""
    out = np.zeros(64, {"float": np.float32, "__half": np.float16}[dtype])
    common = {"name": "k", "grid": (1,), "block": (64,), "args": (out,), "what": "k", "outputs": (out,)}
    launch(source, **common, options=(f"-Dscalar_t={dtype}", f"-DOFF={fine}"))
    with pytest.raises(Wrong, match="on the GPU out"):
        launch(source, **common, options=(f"-Dscalar_t={dtype}", f"-DOFF={wrong}"))


def test_whole_numbers_are_equal_or_wrong(beside):
    source = 'extern "C" __global__ void k(int* out) {\nBODY out[threadIdx.x] += 1000000; }'
    source = source.replace("BODY", ELSEWHERE.format("if (threadIdx.x == 3) out[3] = 1;"))
    out = np.zeros(32, np.int32)
    with pytest.raises(Wrong, match=r"out\[3\] is 1000001, expected 1000000"):
        launch(source, "k", (1,), (32,), (out,), what="k", updated=(out,))


def test_an_array_that_is_passed_twice_is_one(beside):
    x = np.arange(77, dtype=np.float32)
    launch(KERNEL.replace("BODY", ""), "add_to", (1,), (128,), (x, x, 77), what="add_to", updated=(x,))
    assert np.array_equal(x, 2 * np.arange(77))


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_in_either_order(beside, order):
    x = np.asarray(np.arange(77, dtype=np.float32).reshape(7, 11), order=order)
    out = np.full((7, 11), 0.5, np.float32, order=order)
    launch(KERNEL.replace("BODY", ""), "add_to", (1,), (128,), (x, out, 77), what="add_to", updated=(out,))
    assert np.array_equal(out, x + 0.5)


def test_dynamic_shared_memory_of_any_size(beside):
    source = """extern "C" __global__ void k(float* out, int n) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[n - 1 - i]; }"""
    n = 15_000  # 60 kB, more than the 48 KiB that need not be asked for
    out = np.full(n, np.nan, np.float32)
    launch(source, "k", (1,), (256,), (out, n), what="k", shared_mem=4 * n)
    assert np.array_equal(out, np.arange(n)[::-1]) and len(beside) == 1


def test_what_does_not_compile_there(beside):
    with pytest.raises(Wrong) as caught:
        run(ELSEWHERE.format("nonsense;"))
    assert caught.value.what.startswith("add_to: on the GPU, ") and "nonsense" in caught.value.what
    assert "NVRTC" in caught.value.hint


def test_what_cuda_refuses_to_launch(beside, monkeypatch):
    def refused(*args, **kwargs):
        raise RuntimeError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch")

    monkeypatch.setattr(gpu, "_launch", refused)
    with pytest.raises(Wrong) as caught:
        run()
    assert "on the GPU, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in caught.value.what and "registers" in caught.value.hint


def test_a_finding_of_the_trace_keeps_it_off_the_gpu(beside):
    with pytest.raises(Wrong, match="out-of-bounds"):
        run("    out[i + 1000] = 0.0f;\n")
    assert beside == []


def test_an_older_card_is_not_asked(beside, monkeypatch):
    monkeypatch.setattr(cuda, "compute_capability", lambda: 75)
    x, out = np.zeros(3, np.float32), np.zeros(3, np.float32)
    source = "// requires: sm_80\n" + KERNEL.replace("BODY", "")
    launch(source, "add_to", (1,), (128,), (x, out, 3), what="add_to", updated=(out,))
    assert beside == []


def test_the_simulator_alone_if_that_was_asked_for(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    monkeypatch.setattr(gpu, "agree", lambda *args: pytest.fail("the GPU was asked"))
    run()


@on_gpu
def test_the_exercises_of_the_course_pass_on_the_gpu(monkeypatch):
    ran, agree = [], gpu.agree
    monkeypatch.setattr(check.runner, "isolated", False)  # to see here what runs there
    monkeypatch.setattr(gpu, "agree", lambda kernel, *args: ran.append(kernel.name) or agree(kernel, *args))
    for exercise in (exercise for exercise in check.find_all() if exercise.is_cuda):
        monkeypatch.chdir(exercise.folder)
        ran.clear()
        assert check.run(exercise.name, *exercise.objects(exercise.solution))
        assert ran, f"{exercise.name} was not run on the GPU"
