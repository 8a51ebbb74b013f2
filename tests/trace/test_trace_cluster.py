"""Traces of clusters: what blocks do in each other's shared memory, and what is wrong with it."""

from typing import Any

import numpy as np
import pytest

from common import cuda
from common.cuda.simulator import module
from common.kernels.ladder import INCLUDE

HEAD = '#include "grid.h"\nextern "C" __global__ void __cluster_dims__'
OPTIONS = ("-std=c++17", f"-I{INCLUDE}")


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def line_of(source: str, mark: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if mark in line)


RIGHT: dict[str, Any] = {
    # source, grid, block, arguments, shared memory, cooperative
    "a sum over the cluster": (HEAD + r"""(8, 1, 1) k(const float* in, float* out) {
    __shared__ float s;
    if (threadIdx.x == 0) s = in[blockIdx.x];
    cluster_sync();
    float sum = 0;
    if (threadIdx.x < 8) sum = *cluster_map(&s, threadIdx.x);
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    cluster_sync();
}""", (32,), (32,), lambda: [floats(32), floats(32)], 0, False),
    "each writes into the next one's": (HEAD + r"""(2, 2, 1) k(const float* in, float* out) {
    extern __shared__ float s[];
    const int block = blockIdx.x + gridDim.x * blockIdx.y, i = block * 64 + threadIdx.x;
    cluster_sync();
    cluster_map(s, (cluster_rank() + 1) % 4)[threadIdx.x] = in[i];
    cluster_sync();
    out[i] = s[63 - threadIdx.x];
}""", (4, 4), (64,), lambda: [floats(1024), floats(1024)], 256, False),
    "rounds in a ring": (HEAD + r"""(4, 1, 1) k(const float* in, float* out) {
    __shared__ float s[2][32];
    const int t = threadIdx.x;
    s[0][t] = in[blockIdx.x * 32 + t];
    for (int r = 0; r < 5; ++r) {
        cluster_sync();
        s[(r + 1) & 1][t] = cluster_map(&s[r & 1][0], (cluster_rank() + 1) & 3)[31 - t];
    }
    cluster_sync();
    out[blockIdx.x * 32 + t] = s[1][t];
}""", (8,), (32,), lambda: [floats(256), floats(256)], 0, False),
    "sums by atomics": (HEAD + r"""(8, 1, 1) k(const int* in, int* out) {
    __shared__ int sum[2];
    if (threadIdx.x < 2) sum[threadIdx.x] = 0;
    cluster_sync();
    atomicAdd(cluster_map(&sum[threadIdx.x % 2], threadIdx.x % 8), in[blockIdx.x]);
    cluster_sync();
    if (threadIdx.x < 2) out[2 * blockIdx.x + threadIdx.x] = sum[threadIdx.x];
}""", (16,), (64,), lambda: [np.arange(16, dtype=np.int32), np.zeros(32, np.int32)], 0, False),
    "bytes beside one another": (HEAD + r"""(4, 1, 1) k(const unsigned char* in, unsigned* out) {
    __shared__ unsigned words[8];
    cluster_sync();
    ((unsigned char*)cluster_map(words, threadIdx.x / 8))[4 * (threadIdx.x % 8) + cluster_rank()] = in[blockIdx.x];
    cluster_sync();
    if (threadIdx.x < 8) out[blockIdx.x * 8 + threadIdx.x] = words[threadIdx.x];
}""", (8,), (32,), lambda: [np.arange(8, dtype=np.uint8), np.zeros(64, np.uint32)], 0, False),
    "through global memory": (HEAD + r"""(4, 1, 1) k(float* between, float* out) {
    const int i = blockIdx.x * 32 + threadIdx.x, next = (blockIdx.x & ~3) + (blockIdx.x + 1 & 3);
    between[i] = i;
    cluster_sync();
    out[i] = between[next * 32 + threadIdx.x];
}""", (8,), (32,), lambda: [floats(256), floats(256)], 0, False),
    "barriers of clusters and of the grid": (HEAD + r"""(4, 1, 1) k(float* sums, float* out, unsigned* counter) {
    __shared__ float s;
    float v = blockIdx.x;
    for (int r = 0; r < 3; ++r) {
        if (threadIdx.x == 0) s = v;
        cluster_sync();
        if (cluster_rank() == 0 && threadIdx.x == 0)
            sums[blockIdx.x / 4] = *cluster_map(&s, 1) + *cluster_map(&s, 2) + *cluster_map(&s, 3);
        grid_barrier(counter);
        v = sums[0] + sums[1];
        grid_barrier(counter);
    }
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}""", (8,), (32,), lambda: [floats(2), floats(8), np.zeros(1, np.uint32)], 0, True),
    "alone": (HEAD + r"""(1, 1, 1) k(const float* in, float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = in[threadIdx.x];
    cluster_sync();
    out[blockIdx.x * 32 + threadIdx.x] = cluster_map(s, 0)[31 - threadIdx.x];
}""", (3,), (32,), lambda: [floats(32), floats(96)], 0, False),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_correct_kernels_have_no_findings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, grid, block, arguments, shared, cooperative = RIGHT[name]
    kernel = cuda.RawKernel(source, "k", options=OPTIONS, enable_cooperative_groups=cooperative)
    plain = arguments()
    kernel(grid, block, plain, shared_mem=shared)
    seen = []
    for workers in (1, 8, 20):
        monkeypatch.setattr(module, "worker_count", lambda n=workers: n)
        mine, guarded = arguments(), arguments()
        report = cuda.trace(kernel, grid, block, mine, shared_mem=shared)
        assert report.findings == ()
        with cuda.guarded():
            kernel(grid, block, guarded, shared_mem=shared)
        for a, b, c in zip(plain, mine, guarded, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        seen.append(report.lines)
    assert seen[0] == seen[1] == seen[2]


WRONG: dict[str, Any] = {
    # kind, array, words of the message, body (4 blocks a cluster, 32 threads a block; `next` is the block after it)
    "read before the barrier": ("race", "s", ("reads s[", "of block", "no cluster_sync lies between"), """
    cluster_sync();
    s[t] = in[t];  // OTHER
    out[i] = cluster_map(s, next)[t];  // HERE
    cluster_sync();"""),
    "two blocks write one word": ("race", "s", ("writes s[0] of block", "no cluster_sync lies between"), """
    cluster_sync();
    if (t == 0) cluster_map(s, 0)[0] = i;  // HERE, OTHER
    cluster_sync();
    if (cluster_rank() == 0) out[i] = s[0];"""),
    "two threads write one word of another block": ("race", "s", ("writes s[3] of block", "which comes last"), """
    cluster_sync();
    cluster_map(s, next)[3] = i;  // HERE, OTHER
    cluster_sync();
    out[i] = s[3];"""),
    "overwritten while others read": ("race", "s", ("s[", "no cluster_sync lies between"), """
    s[t] = in[t];
    cluster_sync();
    out[i] = cluster_map(s, next)[t];  // HERE
    s[t] = 0;  // OTHER
    cluster_sync();"""),
    "no barrier before": ("absent-block", "s", ("writes s[0] of block (1, 0, 0)", "may not have started"), """
    cluster_map(s, next)[t] = in[t];  // HERE
    cluster_sync();
    out[i] = s[t];"""),
    "no barrier after": ("absent-block", "s", ("reads s[", "of block (1, 0, 0)", "may have returned"), """
    s[t] = in[t];
    cluster_sync();
    out[i] = cluster_map(s, next)[t];  // HERE"""),
    "one block leaves early": ("absent-block", "s", ("of block (0, 0, 0)", "may have returned"), """
    s[t] = in[t];
    cluster_sync();
    if (cluster_rank() == 0) return;
    out[i] = cluster_map(s, next)[t];  // HERE
    cluster_sync();"""),
    "past the end": ("out-of-bounds", "s", ("of block", "s has 32 elements"), """
    s[t] = in[t];
    cluster_sync();
    out[i] = cluster_map(s, next)[t + 64];  // HERE
    cluster_sync();"""),
    "nobody wrote it": ("uninitialised-read", "s", ("reads s[16] of block", "no thread of the cluster has written"), """
    if (t < 16) s[t] = in[t];
    cluster_sync();
    out[i] = cluster_map(s, next)[t];  // HERE
    cluster_sync();"""),
    "global memory, within the cluster": ("race", "out", ("no cluster_sync lies between",), """
    out[i] = in[t];  // OTHER
    out[i] += out[next * 32 + t];  // HERE
    cluster_sync();"""),
    "global memory, beyond the cluster": ("race", "out", ("blocks run in any order",), """
    out[i] = in[t];  // OTHER
    cluster_sync();
    if (blockIdx.x >= 4) out[i] = out[t];  // HERE
    cluster_sync();"""),
    "a barrier in one branch": ("divergent-barrier", None, ("waits at this __syncthreads",), """
    if (t < 16) cluster_sync();
    else __syncthreads();
    out[i] = 1;
    cluster_sync();"""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, array, says, body = WRONG[name]
    source = HEAD + "(4, 1, 1) k(const float* in, float* out) {\n    __shared__ float s[32];\n"
    source += (
        "    const int t = threadIdx.x, i = blockIdx.x * 32 + t, next = (cluster_rank() + 1) % 4;" + body + "\n}\n"
    )
    reports = []
    for workers in (1, 1, 8):
        monkeypatch.setattr(module, "worker_count", lambda n=workers: n)
        kernel = cuda.RawKernel(source, "k", options=OPTIONS)
        report = cuda.trace(kernel, (8,), (32,), [floats(32), floats(256)])
        reports.append((report.findings, report.lines))
    found = reports[0][0]
    assert {f.kind for f in found} == {kind}, found
    if "HERE" in source:
        assert found[0].line == line_of(source, "HERE"), found
    if "OTHER" in source:
        assert found[0].other_line == line_of(source, "OTHER"), found
    assert found[0].array == array
    for words in says:
        assert words in str(found[0])
    assert all(r == reports[0] for r in reports[1:])


def test_guarded_launches_stop_at_the_end_of_another_blocks_memory() -> None:
    source = (
        HEAD
        + """(2, 1, 1) k(float* out, int n) {
    __shared__ float s[32];
    s[threadIdx.x] = n;
    cluster_sync();
    if (threadIdx.x == 0) out[blockIdx.x] = cluster_map(s, 1)[n];
    cluster_sync();
}"""
    )
    kernel = cuda.RawKernel(source, "k", options=OPTIONS)
    with cuda.guarded():
        kernel((4,), (32,), (np.zeros(4, np.float32), 31))
        with pytest.raises(cuda.KernelError, match=r"line 6: .* reads s\[96\] of block \(1, 0, 0\)"):
            kernel((4,), (32,), (np.zeros(4, np.float32), 96))


def test_the_same_word_of_two_blocks_is_two_words() -> None:
    source = (
        HEAD
        + """(8, 1, 1) k(float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;
    cluster_sync();
    float v = cluster_map(s, threadIdx.x % 8)[0] + cluster_map(s, 0)[threadIdx.x];
    cluster_sync();
    out[blockIdx.x * 32 + threadIdx.x] = v;
}"""
    )
    kernel = cuda.RawKernel(source, "k", options=OPTIONS)
    report = cuda.trace(kernel, (16,), (32,), [floats(512)])
    assert not report.findings
    assert report.shared_loads.requests == 32
    assert report.shared_loads.wavefronts == 16 * 8 + 16
    assert {r.array for r in report.requests if r.space == "shared"} == {"s"}
    assert all(0 <= r.offsets.max() < 128 for r in report.requests if r.space == "shared")


def test_whole_clusters_are_watched() -> None:
    source = (
        HEAD
        + """(2, 2, 1) k(float* out) {
    __shared__ float s;
    s = 1;
    cluster_sync();
    out[blockIdx.x + gridDim.x * blockIdx.y] = *cluster_map(&s, 3 - cluster_rank());
    cluster_sync();
}"""
    )
    kernel = cuda.RawKernel(source, "k", options=OPTIONS)
    for blocks, count in ((1, 4), ([3, 9], 8), (None, 16)):
        report = cuda.trace(kernel, (4, 4), (1,), [floats(16)], blocks=blocks)
        assert not report.findings
        assert report.traced_blocks == count
    block = {r.block for r in cuda.trace(kernel, (4, 4), (1,), [floats(16)], blocks=[15]).requests}
    assert block <= {(2, 2, 0), (3, 2, 0), (2, 3, 0), (3, 3, 0)}
