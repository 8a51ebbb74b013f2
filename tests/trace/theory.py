"""Launches whose counts follow from a formula, and those formulas; run as a program it prints what the trace counts."""

# ruff: noqa: E501 (texts of kernels and messages)

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import cuda

_COPY = r"""extern "C" __global__ void copy_@NAME@(const @T@* __restrict__ in, @T@* __restrict__ out, int n, int stride, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i * stride + offset];
}
"""
_SHARED = r"""extern "C" __global__ void shared_@SIZE@(unsigned* out, int stride, int lanes) {
    __shared__ @T@ s[32 * 33];
    if (threadIdx.x < lanes) s[threadIdx.x * stride] = @VALUE@;
    __syncwarp();
    @T@ v = @VALUE@;
    if (threadIdx.x < lanes) v = s[threadIdx.x * stride];
    out[threadIdx.x] = @SUM@;
}
"""
SOURCE = r"""
#include <cuda_fp16.h>
@COPIES@
extern "C" __global__ void copy_2d(const float* __restrict__ in, float* __restrict__ out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < W && y < H) out[y * W + x] = in[y * W + x];
}
extern "C" __global__ void copy_float3(const float3* __restrict__ in, float3* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) out[x * n + y] = in[y * n + x];
}
template <int COLUMNS> __device__ __forceinline__ void through_tile(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float tile[32][COLUMNS];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void transpose_32(const float* __restrict__ in, float* __restrict__ out, int n) { through_tile<32>(in, out, n); }
extern "C" __global__ void transpose_33(const float* __restrict__ in, float* __restrict__ out, int n) { through_tile<33>(in, out, n); }

extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n) {
    __shared__ float As[32][32], Bs[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < n; k0 += 32) {
        As[ty][tx] = A[row * n + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < 32; ++k) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * n + col] = acc;
}
extern "C" __global__ void conv3x3(const float* __restrict__ x, float* __restrict__ y, int H, int W, int oH, int oW, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= oH * oW) return;
    int oh = i / oW, ow = i % oW;
    float acc = 0.0f;
    for (int kh = 0; kh < 3; ++kh) {
        int ih = oh * stride - 1 + kh;
        if (ih < 0 || ih >= H) continue;
        for (int kw = 0; kw < 3; ++kw) {
            int iw = ow * stride - 1 + kw;
            if (iw < 0 || iw >= W) continue;
            acc += x[ih * W + iw];
        }
    }
    y[i] = acc;
}
@SHARED@
extern "C" __global__ void broadcast(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = in[0];
    __syncthreads();
    out[threadIdx.x] = s[7] + in[1];
}
extern "C" __global__ void dynamic(const float* __restrict__ in, float* __restrict__ out) {
    extern __shared__ float tile[];
    tile[threadIdx.x * 2] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[(blockDim.x - 1 - threadIdx.x) * 2];
}
extern "C" __global__ void histogram(const int* __restrict__ in, int* __restrict__ counts, int bins) {
    __shared__ int local[32];
    if (threadIdx.x < 32) local[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&local[in[threadIdx.x] % bins], 1);
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
"""
_TYPES = {"char": "signed char", "half": "__half", "half2": "__half2", "float": "float", "float2": "float2", "float4": "float4",
          "double": "double"}  # fmt: skip
_VALUES = {"4": ("unsigned", "threadIdx.x", "v"), "8": ("uint2", "make_uint2(threadIdx.x, 1u)", "v.x + v.y"),
           "16": ("uint4", "make_uint4(threadIdx.x, 1u, 2u, 3u)", "v.x + v.y + v.z + v.w")}  # fmt: skip
SOURCE = SOURCE.replace(
    "@COPIES@\n", "".join(_COPY.replace("@NAME@", n).replace("@T@", t) for n, t in _TYPES.items())
).replace(
    "@SHARED@\n",
    "".join(
        _SHARED.replace("@SIZE@", n).replace("@T@", t).replace("@VALUE@", v).replace("@SUM@", total)
        for n, (t, v, total) in _VALUES.items()
    ),
)


@dataclass(frozen=True)
class Case:
    """expected: (requests, sectors) of global loads and stores, (requests, wavefronts, conflicts) of shared loads and
    stores, and of atomics (global requests, sectors, shared requests, wavefronts)."""

    name: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: Callable[[], list[Any]]
    expected: dict[str, tuple[int, ...]]
    shared: int = 0


@functools.cache
def _module() -> Any:
    return cuda.RawModule(SOURCE)


def prepared(case: Case) -> tuple[Any, list[Any]]:
    return _module().get_function(case.kernel), case.arguments()


def run(case: Case, keep: bool = False) -> Any:
    kernel, arguments = prepared(case)
    report = cuda.trace(kernel, case.grid, case.block, arguments, shared_mem=case.shared)
    return arguments if keep else report


def counts(r: Any) -> dict[str, tuple[int, ...]]:
    """What a report counts, without what is zero."""
    made = {
        "loads": (r.global_loads.requests, r.global_loads.sectors),
        "stores": (r.global_stores.requests, r.global_stores.sectors),
        "shared loads": (r.shared_loads.requests, r.shared_loads.wavefronts, r.shared_loads.conflicts),
        "shared stores": (r.shared_stores.requests, r.shared_stores.wavefronts, r.shared_stores.conflicts),
        "global atomics": (r.atomics["global"].requests, r.atomics["global"].sectors),
        "shared atomics": (r.atomics["shared"].requests, r.atomics["shared"].wavefronts),
    }
    return {name: value for name, value in made.items() if any(value)}


def by_line(r: Any) -> list[tuple]:
    return [(e.line, e.array, e.kind, e.size, e.counts.requests, e.counts.units, e.counts.ideal) for e in r.lines]


# ---- Formulas
def warps(threads: int, block: int) -> Iterator[range]:
    """The threads of each warp among the first `threads` of blocks of `block`, warps without any left out."""
    for start in range(0, threads, block):
        for first in range(start, min(start + block, threads), 32):
            yield range(first, min(first + 32, start + block, threads))


def sectors(bytes_each: int, places: Any) -> int:
    """Sectors under accesses of `bytes_each` at element numbers `places`."""
    found = {b // 32 for i in places for b in (i * bytes_each, i * bytes_each + bytes_each - 1)}
    return len(found)


def array(n: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(n) % 100).astype(dtype)


def _copy(name: str, kernel: str, dtype: Any, parts: int, n: int, block: int, stride: int = 1, offset: int = 0) -> Case:
    size = np.dtype(dtype).itemsize * parts
    groups = list(warps(n, block))
    return Case(
        name, kernel, (-(-n // block),), (block,),
        lambda: [array(((n - 1) * stride + offset + 1) * parts, dtype), np.zeros(n * parts, dtype), n, stride, offset],
        {
            "loads": (len(groups), sum(sectors(size, [i * stride + offset for i in g]) for g in groups)),
            "stores": (len(groups), sum(sectors(size, g) for g in groups)),
        },
    )  # fmt: skip


def _copies() -> Iterator[Case]:
    for offset in range(10):
        yield _copy(f"copy, offset {offset}", "copy_float", np.float32, 1, 1000, 256, offset=offset)
    for stride in (1, 2, 3, 4, 8, 32):
        yield _copy(f"copy, stride {stride}", "copy_float", np.float32, 1, 517, 128, stride=stride)
    for kernel, dtype, parts in (("char", np.int8, 1), ("half", np.float16, 1), ("half2", np.float16, 2), ("float2", np.float32, 2),
                                 ("float4", np.float32, 4), ("double", np.float64, 1)):  # fmt: skip
        yield _copy(f"copy {kernel}", f"copy_{kernel}", dtype, parts, 301, 64)
        yield _copy(f"copy {kernel}, offset 1", f"copy_{kernel}", dtype, parts, 77, 32, offset=1)
    for n, block in ((1, 32), (7, 32), (33, 64), (100, 45), (97, 17), (1000, 1000)):
        yield _copy(f"copy {n} in blocks of {block}", "copy_float", np.float32, 1, n, block)


def _copy_2d(H: int, W: int, bx: int, by: int) -> Case:
    requests = total = 0
    for y0 in range(0, H, by):
        for x0 in range(0, W, bx):
            for first in range(0, bx * by, 32):
                at = [(y0 + t // bx, x0 + t % bx) for t in range(first, min(first + 32, bx * by))]
                places = [y * W + x for y, x in at if y < H and x < W]
                requests += bool(places)
                total += sectors(4, places)
    return Case(f"copy {H}×{W} in blocks of {bx}×{by}", "copy_2d", (-(-W // bx), -(-H // by)), (bx, by),
                lambda: [array(H * W), np.zeros(H * W, np.float32), H, W],
                {"loads": (requests, total), "stores": (requests, total)})  # fmt: skip


def _float3(n: int) -> Case:
    """Three 4-byte accesses, 12 bytes apart."""
    groups = list(warps(n, 64))
    each = sum(sectors(4, [3 * i + part for i in g]) for g in groups for part in range(3))
    return Case(f"copy {n} float3", "copy_float3", (-(-n // 64),), (64,), lambda: [array(3 * n), np.zeros(3 * n, np.float32), n],
                {"loads": (3 * len(groups), each), "stores": (3 * len(groups), each)})  # fmt: skip


def _transpose(columns: int, n: int) -> Case:
    """columns 0: without a tile."""
    tiles = range(0, n, 32)
    rows = lambda start: range(start, min(start + 32, n))  # noqa: E731
    loads = stores = requests = 0
    shared_loads = conflict_free = 0
    for y0 in tiles:
        for x0 in tiles:
            xs, ys = rows(x0), rows(y0)
            requests += len(ys)
            loads += sum(sectors(4, [y * n + x for x in xs]) for y in ys)
            if columns == 0:
                stores += sum(sectors(4, [x * n + y for x in xs]) for y in ys)
            else:  # written by the block of tile (y0, x0): rows x of the output, in columns y0…
                stores += sum(sectors(4, [x * n + y for y in ys]) for x in xs)
                shared_loads += len(xs) * (len(ys) if columns == 32 else 1)
                conflict_free += len(xs)
    expected: dict[str, tuple[int, ...]] = {"loads": (requests, loads), "stores": (requests, stores)}
    if columns:
        expected["stores"] = (conflict_free, stores)
        expected["shared stores"] = (requests, requests, 0)
        expected["shared loads"] = (conflict_free, shared_loads, shared_loads - conflict_free)
    kernel = f"transpose_{columns}" if columns else "transpose_naive"
    name = f"transpose through {columns} columns, {n}" if columns else f"transpose naively, {n}"
    return Case(
        name,
        kernel,
        (len(tiles), len(tiles)),
        (32, 32),
        lambda: [array(n * n), np.zeros(n * n, np.float32), n],
        expected,
    )


def _sgemm(n: int) -> Case:
    """For each tile a warp loads 2 rows, writes 2, and reads an element of As (a broadcast) and a row of Bs 32 times."""
    warps_in_all, tiles = (n // 32) ** 2 * 32, n // 32
    loads = warps_in_all * tiles * 2
    return Case(f"sgemm {n}", "sgemm", (tiles, tiles), (32, 32), lambda: [array(n * n), array(n * n), np.zeros(n * n, np.float32), n], {
        "loads": (loads, loads * 4), "stores": (warps_in_all, warps_in_all * 4),
        "shared stores": (loads, loads, 0), "shared loads": (loads * 32, loads * 32, 0)})  # fmt: skip


def _conv(H: int, W: int, stride: int) -> Case:
    oH, oW = (H - 1) // stride + 1, (W - 1) // stride + 1
    n, requests, total = oH * oW, 0, 0
    groups = list(warps(n, 64))
    for g in groups:
        for k in range(9):
            at = [(i // oW * stride - 1 + k // 3, i % oW * stride - 1 + k % 3) for i in g]
            places = [y * W + x for y, x in at if 0 <= y < H and 0 <= x < W]
            requests += bool(places)
            total += sectors(4, places)
    return Case(f"conv 3×3 of {H}×{W}, stride {stride}", "conv3x3", (-(-n // 64),), (64,),
                lambda: [array(H * W), np.zeros(n, np.float32), H, W, oH, oW, stride],
                {"loads": (requests, total), "stores": (len(groups), sum(sectors(4, g) for g in groups))})  # fmt: skip


def _shared(size: int, stride: int, lanes: int) -> Case:
    """A turn serves 128 bytes' worth of lanes: all 32 of 4 bytes, 16 of 8, 8 of 16."""
    words_each, waves, turns = size // 4, 0, 0
    for turn in range(words_each):
        here = [lane for lane in range(turn * 32 // words_each, (turn + 1) * 32 // words_each) if lane < lanes]
        words = {lane * stride * words_each + w for lane in here for w in range(words_each)}
        banks = [sum(word % 32 == bank for word in words) for bank in range(32)]
        waves += max(banks)
        turns += bool(here)
    served = (1, waves, waves - turns)
    return Case(f"shared, {size} bytes each, stride {stride}, {lanes} lanes", f"shared_{size}", (1,), (32,),
                lambda: [np.zeros(32, np.uint32), stride, lanes],
                {"shared stores": served, "shared loads": served, "stores": (1, 4)})  # fmt: skip


def _histogram(bins: int) -> Case:
    """64 threads: two warps, 32 % bins spread evenly; the words of one bank are bins apart."""
    words = len({i % bins for i in range(32)})
    return Case(f"histogram of {bins} bins", "histogram", (1,), (64,), lambda: [np.arange(64, dtype=np.int32), np.zeros(32, np.int32), bins], {
        "loads": (2, 8), "shared stores": (1, 1, 0), "shared atomics": (2, 2 if words <= 32 else 4),
        "shared loads": (1, 1, 0), "global atomics": (1, 4)})  # fmt: skip


CASES = [
    *_copies(),
    *(_copy_2d(*s) for s in ((1, 1, 8, 4), (37, 53, 16, 16), (13, 29, 8, 8), (9, 40, 33, 3), (20, 64, 64, 2), (7, 7, 7, 7))),
    _float3(77),
    *(_transpose(columns, n) for columns in (0, 32, 33) for n in (1, 7, 37, 64, 65)),
    _sgemm(32), _sgemm(96),
    *(_conv(H, W, stride) for stride in (1, 2) for H, W in ((7, 7), (1, 1), (17, 33), (14, 20))),
    *(_shared(size, stride, lanes) for size in (4, 8, 16) for stride in (1, 2, 3, 4, 8, 16, 32, 33) for lanes in (32, 19)),
    Case("broadcast", "broadcast", (1,), (64,), lambda: [array(2), np.zeros(64, np.float32)], {
        "loads": (3, 3), "stores": (2, 8), "shared stores": (1, 1, 0), "shared loads": (2, 2, 0)}),
    Case("dynamic shared memory", "dynamic", (1,), (96,), lambda: [array(96), np.zeros(96, np.float32)], {
        "loads": (3, 12), "stores": (3, 12), "shared stores": (3, 6, 3), "shared loads": (3, 6, 3)}, shared=96 * 2 * 4),
    _histogram(1), _histogram(8), _histogram(32),
]  # fmt: skip

if __name__ == "__main__":
    from common.cuda.simulator import find_compiler

    print(find_compiler().version)
    for one in CASES:
        print(f"{one.name}: {by_line(run(one))}")
