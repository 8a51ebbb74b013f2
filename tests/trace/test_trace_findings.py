"""What the trace calls wrong: every kind of finding with its line, threads and array; and correct kernels without any."""

# ruff: noqa: E501 (texts of kernels and messages)

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from common import cuda
from common.cuda.simulator import module


def line_of(source: str, mark: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if mark in line)


def traced(source: str, grid: tuple, block: tuple, arguments: list, shared: int = 0, **options: Any) -> Any:
    kernel = cuda.RawKernel(source, "k", **options)
    return cuda.trace(kernel, grid, block, arguments, shared_mem=shared)


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


@dataclass
class Wrong:
    """`// HERE` marks the line of the finding, `// OTHER` the other line."""

    name: str
    kind: str
    body: str
    array: str | None
    says: tuple[str, ...]
    block: tuple = (64,)
    grid: tuple = (1,)
    arguments: Any = field(default=lambda: [floats(64), floats(64)])
    parameters: str = "const float* __restrict__ in, float* __restrict__ out"
    index: int | None = None
    shared: int = 0
    threads: tuple | None = None
    blocks: tuple | None = None
    cooperative: bool = False

    @property
    def source(self) -> str:
        return f'extern "C" __global__ void k({self.parameters}) {{\n    int t = threadIdx.x;\n{self.body}\n}}\n'


WRONG = [
    Wrong(
        "a load by __ldg from shared memory",
        "out-of-bounds",
        """
    __shared__ float s[64];
    s[t] = in[t];
    __syncthreads();
    out[t] = __ldg(&s[63 - t]);  // HERE""",
        "s",
        ("reads s[", "shared memory, with an instruction for global memory alone"),
    ),
    Wrong(
        "a wide load by __ldg from dynamic shared memory",
        "out-of-bounds",
        """
    extern __shared__ float4 d[];
    if (t < 16) d[t] = ((const float4*)in)[t];
    __syncthreads();
    if (t < 16) ((float4*)out)[t] = __ldg(&d[15 - t]);  // HERE""",
        "d",
        ("shared memory, with an instruction for global memory alone",),
        shared=256,
    ),
    Wrong(
        "a store with a cache hint to a local array",
        "out-of-bounds",
        """
    volatile float own[4] = {0, 1, 2, 3};
    __stcs((float*)&own[t % 4], in[t]);  // HERE
    out[t] = own[t % 4];""",
        None,
        ("writes a local variable, with an instruction for global memory alone",),
    ),
    Wrong(
        "shared, write then read",
        "race",
        """
    __shared__ float s[64];
    s[t] = in[t];  // OTHER
    out[t] = s[63 - t];  // HERE""",
        "s",
        ("reads s[31]", "no __syncthreads lies between"),
        index=31,
        threads=((32, 0, 0), (31, 0, 0)),
    ),
    Wrong(
        "shared, read then write",
        "race",
        """
    __shared__ float s[64];
    s[t] = in[t];
    __syncthreads();
    out[t] = s[(t + 32) % 64];  // OTHER
    s[t] = 0.0f;  // HERE
    __syncthreads();
    out[t] += s[t];""",
        "s",
        ("writes s[0]", "thread (32, 0, 0)", "no __syncthreads"),
        index=0,
        threads=((0, 0, 0), (32, 0, 0)),
    ),
    Wrong(
        "shared, two writes",
        "race",
        """
    __shared__ float s[2];
    s[t / 32 == 0] = in[t];  // HERE OTHER
    __syncthreads();
    out[t] = s[0] + s[1];""",
        "s",
        ("writes s[1]", "thread (0, 0, 0)"),
        index=1,
        threads=((1, 0, 0), (0, 0, 0)),
    ),
    Wrong(
        "one warp without __syncwarp",
        "race",
        """
    __shared__ float s[32];
    s[t] = in[t];  // OTHER
    out[t] = s[t ^ 1];  // HERE""",
        "s",
        ("nor __syncwarp lies between",),
        block=(32,),
        index=0,
        threads=((1, 0, 0), (0, 0, 0)),
    ),
    Wrong(
        "a shuffle of half the warp",
        "race",
        """
    __shared__ float s[32];
    s[t] = in[t];  // OTHER
    if (t < 16) out[t] = __shfl_xor_sync(0xffffu, in[t], 1);
    else out[t] = s[t - 16];  // HERE""",
        "s",
        ("nor __syncwarp lies between",),
        block=(32,),
    ),
    Wrong(
        "global, in a block",
        "race",
        """
    out[t] = in[t];  // OTHER
    out[64 + t] = out[63 - t];  // HERE""",
        "out",
        ("reads out[31]", "no __syncthreads"),
        index=31,
        arguments=lambda: [floats(64), floats(128)],
    ),
    Wrong(
        "blocks write the same",
        "race",
        """
    out[t] = in[t];  // HERE OTHER""",
        "out",
        ("of block (1, 0, 0)", "blocks run in any order"),
        grid=(3,),
        index=0,
        threads=((0, 0, 0), (0, 0, 0)),
        blocks=((1, 0, 0), (0, 0, 0)),
    ),
    Wrong(
        "a block reads what another writes",
        "race",
        """
    out[blockIdx.x * 64 + t] = in[t];  // OTHER
    __syncthreads();
    out[128 + blockIdx.x * 64 + t] = out[64 + t - blockIdx.x * 64];  // HERE""",
        "out",
        ("reads out[", "blocks run in any order"),
        grid=(2,),
        arguments=lambda: [floats(64), floats(256)],
        blocks=((1, 0, 0), (0, 0, 0)),
    ),
    Wrong(
        "last block without a fence",
        "race",
        """
    __shared__ bool last;
    out[1 + blockIdx.x] = in[blockIdx.x];  // OTHER
    __syncthreads();
    if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) out[0] = out[1] + out[2];  // HERE""",
        "out",
        ("blocks run in any order",),
        grid=(4,),
        block=(1,),
        parameters="const float* __restrict__ in, float* out, int* count",
        arguments=lambda: [floats(64), floats(64), np.zeros(1, np.int32)],
    ),
    Wrong(
        "grid.sync forgotten",
        "race",
        """
    int i = blockIdx.x * 32 + t;
    out[i] = in[i];  // OTHER
    out[64 + i] = out[63 - i];  // HERE""",
        "out",
        ("blocks run in any order",),
        block=(32,),
        grid=(2,),
        cooperative=True,
        arguments=lambda: [floats(64), floats(128)],
    ),
    Wrong(
        "an atomic and a plain write",
        "race",
        """
    if (t == 0) out[0] = 0.0f;  // OTHER
    atomicAdd(&out[0], in[t]);  // HERE""",
        "out",
        ("updates out[0]",),
        index=0,
    ),
    Wrong(
        "past the end",
        "out-of-bounds",
        """
    int i = blockIdx.x * 64 + t;
    out[i] = in[i];  // HERE""",
        "in",
        ("reads in[100]", "in has 100 elements", "28 times"),
        grid=(2,),
        index=100,
        arguments=lambda: [floats(100), floats(128)],
        threads=((36, 0, 0),),
        blocks=((1, 0, 0),),
    ),
    Wrong(
        "before the start",
        "out-of-bounds",
        """
    out[t - 1] = in[t];  // HERE""",
        "out",
        ("writes out[-1]", "out has 64 elements"),
        index=-1,
        threads=((0, 0, 0),),
    ),
    Wrong(
        "a float4 over the end",
        "out-of-bounds",
        """
    ((float4*)out)[t] = ((const float4*)in)[t];  // HERE""",
        "in",
        ("reads in[60]",),
        index=60,
        block=(16,),
        arguments=lambda: [floats(62), floats(64)],
    ),
    Wrong(
        "past dynamic shared memory",
        "out-of-bounds",
        """
    extern __shared__ float s[];
    s[t] = in[t];  // HERE
    __syncthreads();
    out[t] = s[t];""",
        "s",
        ("writes s[16]",),
        index=16,
        shared=64,
    ),
    Wrong(
        "nobody wrote it",
        "uninitialised-read",
        """
    __shared__ float s[64];
    if (t < 63) s[t] = in[t];
    __syncthreads();
    out[t] = s[t];  // HERE""",
        "s",
        ("reads s[63]", "no thread of the block has written"),
        index=63,
        threads=((63, 0, 0),),
    ),
    Wrong(
        "barriers in two places",
        "divergent-barrier",
        """
    if (t < 32) {
        out[t] = in[t];
        __syncthreads();  // OTHER
    } else {
        out[t] = 0.0f;
        __syncthreads();  // HERE
    }""",
        None,
        ("waits at this __syncthreads while (0, 0, 0)", "all threads of a block"),
        threads=((32, 0, 0), (0, 0, 0)),
    ),
    Wrong(
        "barriers of two kinds",
        "divergent-barrier",
        """
    int n = 0;
    if (t < 32) n = __syncthreads_count(t < 7);  // OTHER
    else __syncthreads();  // HERE
    out[t] = in[t] + n;""",
        None,
        ("all threads of a block",),
    ),
    Wrong(
        "half of a warp waits",
        "deadlock",
        """
    if (t < 16) __shfl_sync(0xffffffffu, t, 0);
    else __syncthreads();
    out[t] = in[t];""",
        None,
        ("wait at __syncthreads",),
    ),
    Wrong(
        "reads its neighbour, which writes",
        "race",
        """
    __shared__ float s[64];
    s[t] = in[t];
    __syncthreads();
    if (t < 63) s[t] += s[t + 1];  // HERE
    __syncthreads();
    out[t] = s[t];""",
        "s",
        ("thread (31, 0, 0) of block (0, 0, 0) reads s[32], thread (32, 0, 0) uses it in line",),
        index=32,
    ),
    Wrong(
        "several read what one writes",
        "race",
        """
    __shared__ float s[64];
    s[t] = in[t];
    __syncthreads();
    if (t == 0) s[0] += 1.0f;  // HERE
    if (t != 32) out[t] = s[0];""",
        "s",
        ("thread (0, 0, 0)", "s[0]"),
    ),
    Wrong(
        "a float4 between two",
        "misaligned",
        """
    if (t == 3) *(float4*)(out + 2) = *(const float4*)(in + 4);  // HERE""",
        "out",
        ("16 bytes at out[2]", "multiple of 16"),
        index=2,
        threads=((3, 0, 0),),
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_wrong_kernels_are_found(wrong: Wrong) -> None:
    options = {"enable_cooperative_groups": True} if wrong.cooperative else {}
    report = traced(wrong.source, wrong.grid, wrong.block, wrong.arguments(), wrong.shared, **options)
    found = [f for f in report.findings if f.kind == wrong.kind]
    assert found, report.findings
    finding = found[0]
    if "// HERE" in wrong.source:
        assert finding.line == line_of(wrong.source, "HERE")
    if "OTHER" in wrong.source:
        assert finding.other_line == line_of(wrong.source, "OTHER")
    assert finding.array == wrong.array
    for words in wrong.says:
        assert words in str(finding)
    for name in ("index", "threads", "blocks"):
        if getattr(wrong, name) is not None:
            assert getattr(finding, name) == getattr(wrong, name), finding
    assert {f.kind for f in report.findings} == {wrong.kind}, report.findings


@pytest.mark.parametrize("body", ["if (t < 40) __syncthreads();", "if (t >= 40) return;\n    __syncthreads();"])
def test_a_barrier_that_some_threads_miss_is_noted_and_no_finding(body: str) -> None:
    """GPUs since Volta do not wait for threads that have returned."""
    source = f'extern "C" __global__ void k(float* out) {{ int t = threadIdx.x; out[t] = t; {body} }}'
    for threads, missed in ((32, 0), (64, 1)):
        report = traced(source, (1,), (threads,), [floats(64)])
        assert report.findings == () and len(report.missed) == missed
    assert "40 of the 64 threads of block (0, 0, 0) reach this __syncthreads" in report.missed[0].message
    assert report.missed[0].threads == ((40, 0, 0),)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_any_number_of_workers_reports_the_same(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"enable_cooperative_groups": True} if wrong.cooperative else {}
    reports = []
    for workers in (1, 1, 2, 3):
        monkeypatch.setattr(module, "worker_count", lambda n=workers: n)
        report = traced(wrong.source, wrong.grid, wrong.block, wrong.arguments(), wrong.shared, **options)
        reports.append((report.findings, report.lines))
    if wrong.name == "last block without a fence":  # which block is the last is up to the machine
        reports = [([(f.kind, f.line, f.other_line) for f in findings], lines) for findings, lines in reports]
    assert all(r == reports[0] for r in reports[1:])


RIGHT: dict[str, Any] = {
    "the last block adds up": (r"""
extern "C" __global__ void k(const float* __restrict__ in, float* partial, unsigned* count, float* out, int n) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float sum = 0.0f;
        for (int b = t; b < gridDim.x; b += 64) sum += partial[b];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (t % 32 == 0) s[t / 32] = sum;
        __syncthreads();
        if (t == 0) { out[0] = s[0] + s[1]; *count = 0; }
    }
}""", (7,), (64,), lambda: [floats(431), np.zeros(7, np.float32), np.zeros(1, np.uint32), np.zeros(1, np.float32), 431], 0, {}),
    "phases with grid.sync": (r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(float* a, float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 0; round < 3; ++round) {
        b[i] = a[n - 1 - i] + 1.0f;
        cg::this_grid().sync();
        a[i] = b[(i + 37) % n];
        cg::this_grid().sync();
    }
}""", (5,), (40,), lambda: [floats(200), floats(200)], 0, {"enable_cooperative_groups": True}),
    "a warp with __syncwarp": (r"""
extern "C" __global__ void k(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t % 32;
    volatile float* mine = s + t / 32 * 32;
    mine[lane] = in[t];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        float v = mine[(lane + step) % 32];
        __syncwarp();
        mine[lane] += v;
        __syncwarp();
    }
    out[t] = mine[31 - lane];
}""", (1,), (64,), lambda: [floats(64), floats(64)], 0, {}),
    "tiles of cooperative groups": (r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int t = threadIdx.x;
    s[t] = in[t];
    tile.sync();
    float v = s[t ^ 7];
    for (int step = 4; step > 0; step /= 2) v += tile.shfl_down(v, step);
    block.sync();
    s[63 - t] = v;
    cg::sync(block);
    out[t] = s[t];
}""", (1,), (64,), lambda: [floats(64), floats(64)], 0, {}),
    "atomics, a barrier, a read": (r"""
extern "C" __global__ void k(const int* __restrict__ in, int* out) {
    __shared__ int counts[8];
    int t = threadIdx.x;
    if (t < 8) counts[t] = 0;
    __syncthreads();
    atomicAdd(&counts[in[t] % 8], 1);
    __syncthreads();
    if (t < 8) atomicAdd(&out[t], counts[t]);
}""", (4,), (64,), lambda: [np.arange(64, dtype=np.int32), np.zeros(8, np.int32)], 0, {}),
    "two buffers in turn": (r"""
extern "C" __global__ void k(const float* __restrict__ in, float* __restrict__ out, int tiles) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    float sum = 0.0f;
    s[0][t] = in[t];
    __syncthreads();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) s[(k + 1) % 2][t] = in[(k + 1) * 64 + t];
        sum += s[k % 2][63 - t];
        __syncthreads();
    }
    out[t] = sum;
}""", (1,), (64,), lambda: [floats(320), floats(64), 5], 0, {}),
    "everybody reads the same": (r"""
extern "C" __global__ void k(const float* in, float* out) {
    __shared__ float s;
    if (threadIdx.x == 0) s = in[0];
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = s + in[1];
}""", (3,), (64,), lambda: [floats(2), floats(192)], 0, {}),
    "a block reads its own writes": (r"""
extern "C" __global__ void k(const float* in, float* out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = in[i];
    __syncthreads();
    float v = out[blockIdx.x * 64 + 63 - threadIdx.x];
    __syncthreads();
    out[i] = v;
}""", (3,), (64,), lambda: [floats(192), floats(192)], 0, {}),
    "halves that share a word": (r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* __restrict__ in, __half* __restrict__ out) {
    __shared__ __half s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    out[t] = s[t];
    out[t] += s[t];
}""", (1,), (64,), lambda: [np.ones(64, np.float16), np.zeros(64, np.float16)], 0, {}),
    "bytes of one integer": (r"""
extern "C" __global__ void k(const int* __restrict__ in, int* out) {
    __shared__ int s[16];
    int t = threadIdx.x;
    if (t < 16) s[t] = in[t];
    __syncthreads();
    ((char*)out)[blockIdx.x * 32 + t] = ((char*)s)[t];
    __syncthreads();
    ((char*)s)[t] = 7;
    ((char*)out)[blockIdx.x * 32 + t] += ((char*)s)[t];
}""", (2,), (32,), lambda: [np.arange(16, dtype=np.int32), np.zeros(16, np.int32)], 0, {}),
    "parts of a double2": (r"""
extern "C" __global__ void k(double* out) {
    ((float*)out)[blockIdx.x * 3 + threadIdx.x] = threadIdx.x;
}""", (2,), (3,), lambda: [np.zeros(3, np.float64)], 0, {}),
    "in place, the array twice": (r"""
extern "C" __global__ void k(const float* in, float* out) {
    int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = in[i] + 1.0f;
}""", (3,), (64,), lambda: [shared_array := floats(192), shared_array], 0, {}),
    "views of one array": (r"""
extern "C" __global__ void k(const float* low, float* high, float* all) {
    int t = threadIdx.x;
    float v = low[t];
    ((float4*)all)[24 + t] = make_float4(v, v, v, v);
    __syncthreads();
    if (t < 3) high[t] = all[200 - t];
}""", (1,), (24,), lambda: [(whole := floats(256))[:50], whole[58:62], whole], 0, {}),
    "a spin lock": (r"""
extern "C" __global__ void k(int* lock, float* sum, const float* __restrict__ in) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
        *sum += in[blockIdx.x];
        __threadfence();
        atomicExch(lock, 0);
    }
}""", (6,), (32,), lambda: [np.zeros(1, np.int32), np.zeros(1, np.float32), floats(6)], 0, {}),
    "three floats at once": (r"""
extern "C" __global__ void k(const float3* in, float3* out) {
    __shared__ float3 s[32];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
}""", (1,), (32,), lambda: [floats(96), floats(96)], 0, {}),
    "float4 in shared memory": (r"""
extern "C" __global__ void k(const float4* in, float4* out) {
    __shared__ float4 s[2][16];
    s[threadIdx.y][threadIdx.x] = in[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 16 + threadIdx.x] = s[1 - threadIdx.y][threadIdx.x];
}""", (1,), (16, 2), lambda: [floats(128), floats(128)], 0, {}),
    "tables and local arrays": (r"""
__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
extern "C" __global__ void k(const float* __restrict__ in, float* __restrict__ out, int n) {
    float local[8];
    for (int j = 0; j < 8; ++j) local[(j * 3 + n) % 8] = in[j] * table[j % 4];
    float v = 0.0f;
    for (int j = 0; j < 8; ++j) v += local[(j + threadIdx.x) % 8];
    out[threadIdx.x] = v;
}""", (1,), (32,), lambda: [floats(8), floats(32), 5], 0, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_correct_kernels_have_no_findings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, grid, block, arguments, shared, options = RIGHT[name]
    kernel = cuda.RawKernel(source, "k", **options)
    plain = arguments()
    kernel(grid, block, plain, shared_mem=shared)
    seen = []
    for workers in (1, 2, 5):
        monkeypatch.setattr(module, "worker_count", lambda n=workers: n)
        mine = arguments()
        report = cuda.trace(kernel, grid, block, mine, shared_mem=shared)
        assert report.findings == ()
        with cuda.guarded():
            guarded = arguments()
            kernel(grid, block, guarded, shared_mem=shared)
        for a, b, c in zip(plain, mine, guarded, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        # (how often a lock is asked for is up to the machine)
        seen.append([e for e in report.lines if name != "a spin lock" or e.kind != "atomic"])
    if name != "a spin lock":  # how often it spins depends on who is there first
        assert seen[0] == seen[1] == seen[2]
