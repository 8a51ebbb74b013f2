import numpy as np

from common.check import launch
from common.check.kernels import all_reach_barriers, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((1,), (33,), (256,), (257,), (700,))
HINTS = {
    "race": "a barrier must lie between a write to s and another thread's read of it, and between a read and"
    " another thread's next write. The message names both lines: which place lies between them?",
    "divergent-barrier": "which of your barriers do only some of the threads come to?",
    "deadlock": "which of your barriers do only some of the threads come to?",
    "unwritten": "the numbers of the last block are written too",
}


def sums_in_steps(x, steps):
    """Per block of 256 the sums after the steps 1, 2, 4, …"""
    wide = np.zeros(-(-x.size // 256) * 256)
    wide[: x.size] = x
    wide = wide.reshape(-1, 256)
    for step in steps:
        wide = np.concatenate([wide[:, :step], wide[:, step:] + wide[:, :-step]], 1)
    return wide.ravel()[: x.size]


def run(source, x, what):
    n, out = x.size, np.full(x.size, np.nan, np.float32)
    report = launch(source, "block_scan", (-(-n // 256),), (256,), (x, out, n), what=what, hints=HINTS, outputs=(out,))
    all_reach_barriers(report, what=what)
    steps = [1 << i for i in range(8)]
    with np.errstate(invalid="ignore"):
        want = sums_in_steps(x, steps)
        mistakes = [
            (sums_in_steps(x, steps[:-1]), "the last step, of 128, is missing"),
            (sums_in_steps(x, steps[1:]), "the first step, of 1, is missing"),
            (want - x, "each sum takes in its own number"),
            (x, "these are the numbers themselves: nothing has been added"),
        ]
    hint = "each sum takes in its own number and all before it in the block, in 8 steps of 1, 2, 4, … 128"
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=mistakes, rtol=1e-5)


def check(source):
    random = numpy_random()
    for (n,) in shapes(source, random, SIZES, (5000,)):
        run(source, random.standard_normal(n).astype(np.float32) + 0.5, f"block_scan of {n} numbers")
    x = sprinkled(random, random.standard_normal(700).astype(np.float32))
    run(source, x, "block_scan of 700 numbers, NaN and infinities among them")
