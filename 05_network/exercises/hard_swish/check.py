import numpy as np

from common.check import expect, launch, require

BEYOND = 1.0  # what stands behind the n-th number

# numbers, threads in a block
SIZES = ((64, 32), (1, 32), (7, 32), (33, 32), (257, 128), (1000, 256), (96, 1), (101, 33))


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


def check(source):
    def compare(x, threads, in_place, hint, note=""):
        n, blocks = x.size, -(-x.size // threads) + 1  # a block more than there must be
        what = f"hard_swish of {n} number{'s' * (n > 1)}{note} in blocks of {threads}{', out is x' if in_place else ''}"
        before = np.concatenate([x, np.full(8, BEYOND, np.float32)])  # beyond n lies what is not ours
        source_of = before.copy()
        out = source_of if in_place else np.concatenate([np.full(n, np.nan, np.float32), before[n:]])
        hints = {
            "race": "each thread reads one number and writes one, at the same place: no number may be the work of two"
            " threads",
            "out-of-bounds": "the grid has more threads than there are numbers: which of them must not do anything?",
            "uninitialised-read": "out holds nothing yet, if it is not x",
        }
        launch(source, "hard_swish", (blocks,), (threads,), (source_of, out, n), what=what, hints=hints)
        tail = "the grid has more threads than n: a thread with i ≥ n must not write"
        require(bool((out[n:] == BEYOND).all()), what=f"{what} writes beyond the n-th number", hint=tail)
        lost = int(np.isnan(out[:n]).sum() - np.isnan(x).sum())
        every = "out holds NaN before the launch: is there a thread for each i below n, the last one as well?"
        require(lost <= 0, what=f"{what} leaves {lost} NaN in out", hint=every)
        hint = next((named for mistake, named in MISTAKES if np.allclose(out[:n], mistake(x))), hint)
        expect(out[:n], swish(x), what=f"{what}: out", hint=hint, rtol=1e-6, atol=1e-6)
        if not in_place:
            require(
                np.array_equal(source_of[:n], x, equal_nan=True), what=f"{what} changes x", hint="write to out alone"
            )

    x = np.array([4, -4, 1, -1, 0.5, 2, -2, 0, 100, -100], np.float32)
    compare(x, 32, False, "out[i] comes from x[i], each from its own")
    random = np.random.default_rng()
    for n, threads in SIZES:
        x = random.uniform(-5, 5, n).astype(np.float32)
        compare(x, threads, False, "out[i] comes from x[i], for each i from 0 to n − 1")
    for n, threads in SIZES:
        x = random.uniform(-5, 5, n).astype(np.float32)
        hint = "right if out is elsewhere, wrong if out is x: x[i] is read after it was overwritten, or worked on twice"
        compare(x, threads, True, hint)
    x = random.uniform(-5, 5, 70).astype(np.float32)
    x[::7] = np.nan
    hint = "a NaN is no number below −3 and none above 3: comparisons with it are false, so a branch may lose it"
    compare(x, 32, False, hint, " with NaN among them")
