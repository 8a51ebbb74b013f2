import numpy as np

from common import cuda
from common.check import launch, require
from common.check.answers import Wrong
from common.check.kernels import asked, compare, shapes
from common.check.trials import numpy_random
from common.cuda.simulator.module import SimulatedModule
from common.kernels.ladder import header_options

SIZES = ((130,), (1,), (64,), (200,))
THREADS = 64

# A kernel around the answer's, which counts its barriers, and overwrites w while all threads stand in the first of them
# if `spoil` says so. Line 1 stays line 1.
BEFORE = """#include "grid.h"
__device__ int* course_barriers;
__device__ float* course_weights;
__device__ int course_spoilt;
static __device__ void course_barrier(unsigned* counter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    course_barriers[i] += 1;
    grid_barrier(counter);
    for (int k = i; k < course_spoilt; k += gridDim.x * blockDim.x) course_weights[k] = __int_as_float(0x7fffffff);
    grid_barrier(counter);
}
#define grid_barrier course_barrier
#line 1
"""
AFTER = """
extern "C" __global__ void course_watched(float* x, float* a, float* h, float* w, float* y, int n, int* barriers,
                                          int spoil) {
    course_barriers = barriers;
    course_weights = w;
    course_spoilt = spoil;
    two_phases(x, a, h, w, y, n);
}
"""

HINTS = {
    "race-global": "phase 2 reads what other blocks write in phase 1: every thread of the grid must have passed one"
    " grid_barrier in between; __syncthreads waits for the own block only",
    "race": "what another thread has put into s may be read after a barrier: grid_barrier is one for the block as well",
    "uninitialised-read": "something is read that nobody has written: h of a neighbour before the barrier, or a place"
    " of s that no thread has filled",
    "out-of-bounds": "h[-1] and h[n] do not exist, and the last block has threads without a number",
    "deadlock": "every thread of every block must come to grid_barrier, those without a number too: none may return or"
    " branch away before it",
    "divergent-barrier": "every thread of every block must come to grid_barrier, those without a number too",
    "unwritten": "phase 1 writes h of every number: the blocks beside this one read it there; and phase 2 writes y",
}


def watched(source, arrays, n, spoil, what):
    """(y, how many barriers each thread came to); weights are overwritten in the barrier if spoil is true."""
    kernel = SimulatedModule(BEFORE + source + AFTER, header_options(), (), True).get_function("course_watched")
    x, a, h, w, y = (array.copy() for array in arrays)
    blocks = -(-n // THREADS)
    barriers = np.zeros(blocks * THREADS, np.int32)
    try:
        kernel((blocks,), (THREADS,), (x, a, h, w, y, n, barriers, 3 * n if spoil else 0))
    except cuda.KernelError as error:
        raise Wrong(f"{what}: {error}", HINTS["deadlock"]) from None
    return y, barriers


def second_phase(h, w):
    """y of the row h, outside of which there are zeros."""
    terms = np.zeros((3, len(h)))
    terms[0, 1:], terms[1], terms[2, :-1] = w[1:, 0] * h[:-1], w[:, 1] * h, w[:-1, 2] * h[1:]
    return terms.sum(0)


def mistakes(h, w):
    """What comes of some mistakes, by the hint that each deserves."""
    edges = np.arange(len(h)) % THREADS
    left, right = np.where(edges == 0, 0, np.roll(h, 1)), np.where(edges == THREADS - 1, 0, np.append(h[1:], 0))
    own = w[:, 0] * left + w[:, 1] * h + w[:, 2] * right
    yield own, "only the first and the last number of a block are wrong: their neighbours are another block's"
    yield second_phase(h, w[:, ::-1]), "w[i][k] belongs to h[i - 1 + k]: yours are turned round"
    yield second_phase(h, w.T.reshape(w.shape)), "w[i][k] lies at 3 · i + k"


def check(source):
    random = numpy_random()
    for (n,) in shapes(source, random, SIZES, (1500,)):
        what = f"two_phases of {n} numbers"
        x, a = (random.standard_normal(n).astype(np.float32) for _ in range(2))
        w = random.standard_normal((n, 3)).astype(np.float32)
        if n == 200:
            x[[3, 70, 150]], what = (np.inf, -np.inf, -0.0), f"{what}, infinities in x"
        grid = (-(-n // THREADS),)

        def fresh(n=n, x=x, a=a, w=w):
            return [x, a, np.full(n, np.nan, np.float32), w, np.full(n, np.nan, np.float32)]

        arrays = fresh()
        _, _, h, _, y = arrays
        launch(
            source, "two_phases", grid, (THREADS,), (*arrays, n), what=what, hints=HINTS, cooperative=True,
            outputs=(h, y),
        )  # fmt: skip
        exact = a.astype(np.float64) * x
        known = [(exact, "h is at least 0: max(0, a[i] · x[i])")]
        compare(
            h, np.maximum(0, exact), what=f"{what}: h", hint="h[i] = max(0, a[i] · x[i])", mistakes=known,
            rtol=1e-5, atol=1e-6,
        )  # fmt: skip
        with np.errstate(invalid="ignore"):
            hidden = np.maximum(0, exact)
            known, want = list(mistakes(hidden, w)), second_phase(hidden, w)
        hint = "w[i][k] belongs to h[i - 1 + k]"
        compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)

        _, barriers = watched(source, fresh(), n, False, what)
        require(barriers.any(), what=f"{what}: no grid_barrier is called", hint=HINTS["race-global"])
        hint = "grid_barrier is for every thread of every block, those without a number too: they may return behind it"
        some = f"{what}: {np.sum(barriers > 0)} of {barriers.size} threads come to grid_barrier"
        require(barriers.all(), what=some, hint=hint)
        hint = "one barrier is enough: each costs about as much as a small phase"
        asked((barriers == 1).all(), what=f"{what} comes to {barriers.max()} barriers", hint=hint)
        late, _ = watched(source, fresh(), n, True, what)
        hint = "take w to s before the barrier: there is the time that the way of the weights can be hidden in"
        said = f"{what}: w is read after the barrier, when everybody waits for it"
        asked(not (np.isnan(late) & ~np.isnan(y)).any(), what=said, hint=hint)
