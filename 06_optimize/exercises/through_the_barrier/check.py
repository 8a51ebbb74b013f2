import re

import numpy as np

from common import cuda
from common.check import expect, launch, require
from common.check.answers import Wrong
from common.cuda.simulator.module import SimulatedModule
from common.kernels.ladder import header_options

SIZES = (1, 64, 130, 200)
THREADS = 64

# Every barrier is counted, and while all threads stand in it, w is overwritten if `spoil` says so.
BEFORE = """#include "grid.h"
__device__ int* barriers_of;
__device__ float* weights_of;
__device__ int spoilt;
static __device__ void barrier_of_the_check(unsigned* counter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    barriers_of[i] += 1;
    grid_barrier(counter);
    for (int k = i; k < spoilt; k += gridDim.x * blockDim.x) weights_of[k] = __int_as_float(0x7fffffff);
    grid_barrier(counter);
}
#define grid_barrier barrier_of_the_check
#line 1
"""
AFTER = """
extern "C" __global__ void watched(float* x, float* a, float* h, float* w, float* y, int n, int* barriers, int spoil) {
    barriers_of = barriers;
    weights_of = w;
    spoilt = spoil;
    answer(x, a, h, w, y, n);
}
"""
KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+two_phases\b')

HINTS = {
    "race": "phase 2 reads what other blocks write in phase 1: every thread of the grid must have passed one"
    " grid_barrier in between; __syncthreads waits for the own block only",
    "uninitialised-read": "something is read that nobody has written: h of a neighbour before the barrier, or a place"
    " of s that no thread has filled",
    "out-of-bounds": "h[-1] and h[n] do not exist, and the last block has threads without a number",
    "deadlock": "every thread of every block must come to grid_barrier, those without a number too: none may return or"
    " branch away before it",
    "divergent-barrier": "every thread of every block must come to grid_barrier, those without a number too",
}


def watched(source, arrays, n, spoil, what):
    """(h, y, how many barriers each thread came to); weights are overwritten in the barrier if spoil is true."""
    text = BEFORE + KERNEL.sub("static __device__ void answer", source) + AFTER
    kernel = SimulatedModule(text, header_options(), (), True).get_function("watched")
    x, a, h, w, y = (array.copy() for array in arrays)
    blocks = -(-n // THREADS)
    barriers = np.zeros(blocks * THREADS, np.int32)
    try:
        kernel((blocks,), (THREADS,), (x, a, h, w, y, n, barriers, 3 * n if spoil else 0))
    except cuda.KernelError as error:
        raise Wrong(f"{what}: {error}", HINTS["deadlock"]) from None
    return h, y, barriers


def check(source):
    random = np.random.default_rng()
    for n in SIZES:
        what = f"two_phases of {n} numbers"
        x, a = (random.standard_normal(n).astype(np.float32) for _ in range(2))
        w = random.standard_normal((n, 3)).astype(np.float32)
        hidden = np.maximum(0, a.astype(np.float64) * x)
        padded = np.pad(hidden, 1)
        want = w[:, 0] * padded[:-2] + w[:, 1] * padded[1:-1] + w[:, 2] * padded[2:]
        grid = (-(-n // THREADS),)

        def fresh(n=n, x=x, a=a, w=w):
            return [x, a, np.full(n, np.nan, np.float32), w, np.full(n, np.nan, np.float32)]

        arrays = fresh()
        launch(source, "two_phases", grid, (THREADS,), (*arrays, n), what=what, hints=HINTS, cooperative=True)
        h, y = arrays[2], arrays[4]
        hint = "phase 1 writes h of every number: the blocks beside this one read it there"
        require(not np.isnan(h).any(), what=f"{what} leaves NaN in h", hint=hint)
        expect(h, hidden.astype(np.float32), what=f"{what}: h", hint="h[i] = max(0, a[i] · x[i])", rtol=1e-5, atol=1e-6)
        hint = "y holds NaN before: is all of it written?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        hint = "w[i][k] belongs to h[i - 1 + k]"
        off = np.abs(y - want) > 1e-4
        if off.any() and not (off & ~np.isin(np.arange(n) % THREADS, (0, THREADS - 1))).any():
            hint = "only the first and the last number of a block are wrong: their neighbours are another block's"
        expect(y, want.astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)

        _, y, barriers = watched(source, fresh(), n, False, what)
        require(barriers.any(), what=f"{what}: no grid_barrier is called", hint=HINTS["race"])
        hint = "grid_barrier is for every thread of every block, those without a number too: they may return behind it"
        some = f"{what}: {np.sum(barriers > 0)} of {barriers.size} threads come to grid_barrier"
        require(barriers.all(), what=some, hint=hint)
        hint = "one barrier is enough: each costs about as much as a small phase"
        require((barriers == 1).all(), what=f"{what} comes to {barriers.max()} barriers", hint=hint)
        _, y, _ = watched(source, fresh(), n, True, what)
        hint = "take w to s before the barrier: there is the time that the way of the weights can be hidden in"
        late = f"{what}: w is read after the barrier, when everybody waits for it"
        require(not np.isnan(y).any(), what=late, hint=hint)
