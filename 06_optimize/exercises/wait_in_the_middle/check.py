import numpy as np

from common import cuda
from common.check import launch, require
from common.check.answers import Wrong
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random
from common.cuda.simulator.module import SimulatedModule
from common.kernels.ladder import header_options

SIZES = ((200,), (1,), (63,), (64,))
THREADS = 64

# The previous kernel, in the blocks with blockIdx.y = 1 of the same launch: it does all of its work at the last moment
# that the wait allows. A thread's first wait_for_inputs() is two barriers of the grid, and it works between them.
BEFORE = """#include "grid.h"
__device__ int* course_waits;
static __device__ void course_wait() {
    if (course_waits[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x]++) return;
    grid_barrier(0);
    grid_barrier(0);
}
#define wait_for_inputs course_wait
#line 1
"""
AFTER = """
extern "C" __global__ void course_two_kernels(float* x, float* w, float* y, int pixels, const float* made, float* seen,
                                              int spoil, float nan, int* waits) {
    course_waits = waits;
    if (blockIdx.y == 0) {
        pointwise(x, w, y, pixels);
        if (waits[blockIdx.x * blockDim.x + threadIdx.x]) return;
        grid_barrier(0);  // who has not waited comes too late
        grid_barrier(0);
        return;
    }
    int t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    grid_barrier(0);
    for (int i = t; i < pixels * 8; i += all) seen[i] = y[i];
    for (int i = t; i < pixels * 16; i += all) x[i] = made[i];
    if (spoil && t < 128) w[t] = nan;
    grid_barrier(0);
}
"""
HINTS = {
    "race": "s is filled by all threads and read by all: a __syncthreads between; the wait is none",
    "uninitialised-read": "64 threads fill 128 places of s",
    "out-of-bounds": "threads without a pixel read no x and write no y; they fill s and wait as all do",
    "unwritten": "each thread that has a pixel writes its 8 outputs",
}


def beside_the_kernel_ahead(source, x, w, pixels, spoil, what):
    """(y, what the previous kernel read in y, waits of each thread): the answer runs while that kernel does."""
    kernel = SimulatedModule(BEFORE + source + AFTER, header_options(), (), True).get_function("course_two_kernels")
    blocks = -(-pixels // THREADS)
    late, spoilt = np.full_like(x, np.nan), w.copy()
    y, seen = np.full((pixels, 8), 7, np.float32), np.zeros((pixels, 8), np.float32)
    waits = np.zeros((2, blocks, THREADS), np.int32)
    try:
        kernel((blocks, 2), (THREADS,), (late, spoilt, y, pixels, x, seen, int(spoil), np.float32(np.nan), waits))
    except cuda.KernelError as error:
        hint = "wait_for_inputs() is for every thread of the block: none may stay behind at a __syncthreads meanwhile"
        raise Wrong(f"{what}: {error}", hint) from None
    return y, seen, waits[0]


def check(source):
    random = numpy_random()
    for (pixels,) in shapes(source, random, SIZES, (1500,)):
        what = f"pointwise of {pixels} pixels"
        x = random.standard_normal((pixels, 16)).astype(np.float32)
        w = random.standard_normal((8, 16)).astype(np.float32)
        want = x.astype(np.float64) @ w.T.astype(np.float64)
        y = np.full((pixels, 8), np.nan, np.float32)
        args, grid = (x, w, y, pixels), (-(-pixels // THREADS),)
        launch(source, "pointwise", grid, (THREADS,), args, what=what, hints=HINTS, outputs=(y,))
        hint = "alone on the card it is not right yet: x[p][c] is at 16 · p + c, w[o][c] at 16 · o + c"
        hint += ", y[p][o] at 8 · p + o"
        known = [(x @ w.reshape(16, 8), "w is (8, 16): w[o][c] is at 16 · o + c")]
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)
        if pixels == 63:
            odd, out = sprinkled(random, x), np.full_like(y, np.nan)
            said = f"{what}, NaN and infinities in x"
            launch(source, "pointwise", grid, (THREADS,), (odd, w, out, pixels), what=said, hints=HINTS, outputs=(out,))
            with np.errstate(invalid="ignore"):
                compare(out, odd.astype(np.float64) @ w.T, what=f"{said}: y", hint=hint, rtol=1e-5, atol=1e-5)

        beside = f"{what}, while the previous kernel still runs"
        y, seen, waits = beside_the_kernel_ahead(source, x, w, pixels, False, beside)
        hint = "nothing orders the two kernels but wait_for_inputs()"
        require(waits.any(), what=f"{beside}: no thread waits for it", hint=hint)
        hint = "wait_for_inputs() is for every thread of the block, those without a pixel too"
        some = f"{beside}: {np.sum(waits > 0)} of {waits.size} threads wait for it"
        require(waits.all(), what=some, hint=hint)
        hint = "y is memory that the previous kernel still reads: write nothing there before the wait"
        require((seen == 7).all(), what=f"{beside}: that kernel finds other numbers in y than it should", hint=hint)
        hint = "x is not written yet before the wait: no thread may read it earlier"
        require(not np.isnan(y).any(), what=f"{beside}: y holds NaN, as x did until it was written", hint=hint)
        hint = "the sums change when another kernel runs beside"
        compare(y, want, what=f"{beside}: y", hint=hint, rtol=1e-5, atol=1e-5)

        y, _, _ = beside_the_kernel_ahead(source, x, w, pixels, True, beside)
        hint = "take w to s before the wait: that is the work that can be hidden behind the previous kernel"
        late = f"{what}: w is read after the wait, when there is nothing left to hide it behind"
        asked(not np.isnan(y).any(), what=late, hint=hint)
