"""A check, once per compiler, that traces count correctly: small kernels whose counts are known from theory.

A trace reconstructs warps from the order of the compiled code. A compiler that orders code differently from the source,
or adds or removes memory accesses, would lead to wrong counts without an error. So the first trace with a compiler runs
these probes; success is recorded in the cache.
"""

import contextlib
import functools
import hashlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cache import cache_dir
from ..errors import CompileError, KernelError
from . import compiler

PROBES = r"""
#include <cuda_fp16.h>
extern "C" __global__ void copy(const float* __restrict__ in, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i + 1];
}
extern "C" __global__ void guarded_loop(const float* __restrict__ in, float* __restrict__ out, int n) {
    int lane = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < 1 + lane / 8; ++k) {
        if ((k + lane) % 2) continue;
        sum += in[32 * k + lane];
    }
    for (int k = 0; k < lane % 4; ++k) {
        if (lane == 31) break;
        for (int j = 0; j < 1 + k; ++j) sum += in[32 * j + k];
    }
    if (lane < n) out[lane] = sum;
}
extern "C" __global__ void loop_of_each_lane(const float* __restrict__ in, float* __restrict__ out, int n) {
    int lane = threadIdx.x;
    for (int k = n, end = lane % 4; k < end; ++k) out[32 * k + lane] = in[32 * k + lane];
    out[128 + lane] = in[128 + lane];
}
static __device__ __noinline__ float fetch(const float* in, int i) { return in[i]; }
extern "C" __global__ void calls(const float* __restrict__ in, float* __restrict__ out, int n) {
    int lane = threadIdx.x;
    float v;
    if (lane & 1) v = fetch(in, lane); else v = in[32 + lane];
    v += fetch(in, 64 + lane);
    if (v < n) return;
    out[lane] = v;
}
extern "C" __global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * n + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void vectors(const float* __restrict__ in, float* __restrict__ out, int n) {
    ((float4*)out)[threadIdx.x] = ((const float4*)in)[threadIdx.x];
    if (threadIdx.x < n) ((__half2*)out)[256 + threadIdx.x] = ((const __half2*)in)[256 + threadIdx.x];
}
"""
# kernel: grid, block, n, and the expected counts: requests and sectors of global loads and of global stores,
# wavefronts of shared loads and of shared stores
EXPECTED: dict[str, tuple[tuple, tuple, int, tuple[int, ...]]] = {
    "copy": ((2,), (64,), 70, (3, 5 + 5 + 1, 3, 4 + 4 + 1, 0, 0)),
    "guarded_loop": ((1,), (32,), 32, (4 + 6, (4 + 3 + 2 + 1) + 6, 1, 4, 0, 0)),
    "loop_of_each_lane": ((1,), (32,), 0, (3 + 1, 3 * 4 + 4, 3 + 1, 3 * 4 + 4, 0, 0)),
    "calls": ((1,), (32,), 0, (3, 4 + 4 + 4, 1, 4, 0, 0)),
    "transpose": ((1,), (32, 32), 32, (32, 128, 32, 128, 32 * 32, 32)),
    "vectors": ((1,), (32,), 32, (2, 16 + 4, 2, 16 + 4, 0, 0)),
}


def _key(used: compiler.Compiler) -> str:
    parts = [used.version, *used.command, *compiler.traced_flags(used), compiler.headers(), PROBES, repr(EXPECTED)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=8)
def _prove(key: str, run: Callable[[str, str, tuple, tuple, list], Any]) -> None:
    remembered = cache_dir() / f"proven-{key}"
    if remembered.exists():
        return
    with compiler.compiling():  # the runs count as compilation, too
        _try_all(run)
    with contextlib.suppress(OSError):  # then the probes run again next time
        remembered.touch()


def _try_all(run: Callable[[str, str, tuple, tuple, list], Any]) -> None:
    for name, (grid, block, n, expected) in EXPECTED.items():
        arrays = [np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)]
        try:
            r = run(PROBES, name, grid, block, [*arrays, n])
        except (CompileError, KernelError, OSError) as error:
            raise _refusal(name, expected, f"it fails: {' '.join(str(error).split())[:300]}") from error
        got = (r.global_loads.requests, r.global_loads.sectors, r.global_stores.requests, r.global_stores.sectors,
               r.shared_loads.wavefronts, r.shared_stores.wavefronts)  # fmt: skip
        if got != expected or r.findings:
            raise _refusal(name, expected, f"got {got}" + "".join(f"; {f}" for f in r.findings))


def _refusal(probe: str, expected: tuple[int, ...], what: str) -> RuntimeError:
    version = compiler.find_compiler().version
    return RuntimeError(
        f"cuda.trace: the counts of this compiler cannot be trusted: {version}. Probe '{probe}' must count {expected}"
        " (requests and sectors of global loads, of global stores, wavefronts of shared loads, of shared stores);"
        f" {what}. Plain launches work with it. For traces set CXX to another compiler: g++ 12, or the"
        ' clang of `pip install ziglang`, CXX="python -m ziglang cc".'
    )


def prove(run: Callable[[str, str, tuple, tuple, list], Any]) -> None:
    """Raise RuntimeError unless the probes have the expected counts.

    run: (source, name of the kernel, grid, block, args) → Report of a traced launch.
    """
    used = compiler.find_compiler()
    _prove(_key(used), run)
    if used.family == "clang":
        _warn_of_clang()


@functools.cache  # once per process
def _warn_of_clang() -> None:
    warnings.warn(
        "cuda.trace: compiled by clang. Where loops stand in loops that lanes leave at different times, it may lay out"
        " code otherwise than the source, and a few counts are then not those of lockstep warps; g++ 12 is exact.",
        stacklevel=2,
    )
