import numpy as np

from common.check import Wrong, launch, require
from common.check.kernels import compare
from common.check.trials import numpy_random
from common.lab import launch_lines

SIZES = (64, 1, 7, 33, 257, 1000, 4099)  # numbers
HINTS = {
    "race-global": "each thread reads one number and writes one, at the same place: no number may be the work of two"
    " threads",
    "out-of-bounds": "the grid has more threads than n: a thread with i ≥ n must not read or write",
    "unwritten": "is there a thread for each i below n, the last one as well?",
    "input": "write to out alone",
}


def swish(x):
    x = x.astype(np.float64)
    return (x * np.clip(x / 6 + 0.5, 0, 1)).astype(np.float32)


# what comes out of a mistake, and its name
MISTAKES = (
    (lambda x: x * 0.5, "in C++ 1 / 6 divides whole numbers and is 0: 1.0f / 6.0f"),
    (lambda x: x * np.clip(x / 6, 0, 1), "in C++ 1 / 2 divides whole numbers and is 0: 0.5f"),
    (lambda x: x * np.clip(x + 3, 0, 6), "x · ReLU6(x + 3) is six times as large as it should be"),
    (
        lambda x: x * np.maximum(x / 6 + 0.5, 0),
        "from 3 on the result is x itself: the clamp lets through 1 at the most",
    ),
    (lambda x: x * np.minimum(x / 6 + 0.5, 1), "up to −3 the result is 0: the clamp lets nothing below 0 through"),
    (lambda x: np.clip(x / 6 + 0.5, 0, 1), "this is the clamp's result, HardSigmoid: it is a factor of x"),
)


def run(source, x, in_place, hint, note=""):
    n = x.size
    what = f"hard_swish of {n} number{'s' * (n > 1)}{note}{', out is x' if in_place else ''}"
    try:
        size = launch_lines.size(source, {"n": n})
    except launch_lines.LaunchError as error:
        raise Wrong(str(error), "the first comment of the file says how many blocks and threads it needs") from None
    given = x.copy()
    out = given if in_place else np.full(n, np.nan, np.float32)
    which = {"outputs": (), "updated": (given,)} if in_place else {"outputs": (out,)}
    args = given, out, n
    launch(source, "hard_swish", size.grid, size.block, args, what=what, hints=HINTS, shared_mem=size.shared, **which)
    lost = int((np.isnan(x) & ~np.isnan(out)).sum())
    every = "a NaN is no number below −3 and none above 3: comparisons with it are false, so a branch may lose it"
    require(not lost, what=f"{what}: {lost} NaN become numbers", hint=every)
    with np.errstate(invalid="ignore"):
        known = [(mistake(x.astype(np.float64)), named) for mistake, named in MISTAKES]
    compare(out, swish(x), what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-6, atol=1e-6)


def check(source):
    random = numpy_random()
    x = np.array([4, -4, 1, -1, 0.5, 2, -2, 0, 100, -100], np.float32)
    run(source, x, False, "out[i] comes from x[i], each from its own")
    for in_place in (False, True):
        hint = "out[i] comes from x[i], for each i from 0 to n − 1"
        if in_place:
            hint = "right if out is elsewhere, wrong if out is x: x[i] is read after it was overwritten, or worked on"
            hint += " twice"
        for n in (*SIZES, int(random.integers(300, 5000))):
            run(source, random.uniform(-5, 5, n).astype(np.float32), in_place, hint)
    x = random.uniform(-5, 5, 70).astype(np.float32)
    x[::7] = np.nan
    x[1:5] = np.inf, -0.0, 1e-45, 3.0
    for in_place in (False, True):
        run(source, x, in_place, "from 3 on the result is x itself, also where x is infinite", " with NaN and ∞")
