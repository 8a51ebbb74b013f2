import numpy as np

from common.check import launch
from common.check.kernels import compare, one_element_each, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((2, 300), (4, 700), (1, 100), (9, 1000))  # warps of a block, elements
HINTS = {
    "out-of-bounds": "the last block may have threads without an element: compare i with n",
    "race-global": "two threads have the same index: block b begins at index b * blockDim.x, right behind the last"
    " index of the block before",
    "unwritten": "which thread has this index? Block 0 begins at index 0, block b at index b * blockDim.x, and"
    " blockDim.x differs from launch to launch",
    "output-read": "out[i] is factor * in[i]: what out held before the launch does not count",
}


def check(source):
    random = numpy_random()
    reports = []
    for warps, n in shapes(source, random, SIZES, ((32,), 3000)):
        threads = 32 * warps
        blocks = -(-n // threads) + int(random.integers(2))  # now and then a block that has nothing to do
        factor = np.float32(random.uniform(1.5, 9.5))
        what = f"scale_any_length with {n} elements and {blocks} blocks of {threads} threads"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 700:
            x = sprinkled(random, x, huge=True)
        out = np.full(n, np.nan, np.float32)
        args = (x, out, factor, n)
        report = launch(source, "scale_any_length", (blocks,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
        with np.errstate(over="ignore"):
            want, whole = factor * x, np.trunc(factor) * x
        mistakes = [(whole, "factor is a float: as an int it loses what stands behind the point")]
        hint = "out[i] is factor * in[i], all of them floats"
        compare(out, want, what=f"{what}: out", hint=hint, mistakes=mistakes)
        reports.append((what, n, blocks, report))

    for what, n, blocks, report in reports:  # right first, then all threads at work
        one_element_each(report, 1, n, n // 32 + blocks, what=what)
