import numpy as np

from common.check import launch
from common.check.kernels import all_reach_barriers, asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((7, 300), (10, 1500), (8, 700), (5, 100), (6, 64), (9, 1))  # log2 of the threads of a block, elements
HINTS = {
    "out-of-bounds": "the last block may have threads without an element: compare i with n before in[i]; out has one"
    " element per block",
    "shared-bounds": "s[blockDim.x - 1] is the last element of s that has a thread, and blockDim.x may be 1024",
    "race": "two threads use the same place: a barrier must lie between one step's writes and the next step's reads,"
    " and a step's writes must not touch what another thread reads in that step",
    "race-global": "one thread stores the sum, at an index that is its block's own",
    "uninitialised-read": "no thread has put a number there: a thread without an element must do so too, if others read"
    " it; and the elements from s[blockDim.x] on have no thread",
    "unwritten": "one thread stores the block's sum, at the index of its block",
    "output-read": "the block's sum replaces what out held before",
}


def of_blocks(x, threads):
    """x as one row per block, what is missing of the last one 0."""
    padded = np.zeros(-(-x.size // threads) * threads)
    padded[: x.size] = x
    return padded.reshape(-1, threads)


def mistakes(x, threads):
    """What comes of some mistakes, by the hint that each deserves."""
    rows = of_blocks(x, threads)
    spare = np.zeros(len(rows))
    spare[-1] = rows.size - x.size
    yield rows[:, 0], "this is the first element of each block: nothing has been added to it in log2(blockDim.x) steps"
    yield rows[:, ::2].sum(1), "the last of the log2(blockDim.x) steps is missing, the one with the distance 1"
    yield (
        rows[:, : threads // 2].sum(1),
        "the first of the log2(blockDim.x) steps is missing, the one with the distance blockDim.x / 2",
    )
    yield rows.sum(1) + spare, "a thread without an element adds 0 to the sum, this is 1"


def run(source, x, threads, what):
    """Whole numbers: their sums are exact in any order."""
    out = np.full(-(-x.size // threads), np.nan, np.float32)
    args = (x, out, x.size)
    report = launch(source, "block_sums", (out.size,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
    hint = "is every element added once, in log2(blockDim.x) steps? A thread without an element adds 0 to the sum"
    with np.errstate(invalid="ignore"):
        want, known = of_blocks(x, threads).sum(1), list(mistakes(x, threads))
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for power, n in shapes(source, random, SIZES, ((10,), 3000)):
        threads = 1 << max(power, 5)
        what = f"block_sums of {n} elements in blocks of {threads}"
        x = random.integers(-999, 1000, n).astype(np.float32)
        reports.append((what, threads, -(-n // threads), run(source, x, threads, what)))
        if n == 1500:
            run(source, sprinkled(random, x), threads, f"{what}, NaN and infinities among them")

    for what, threads, blocks, report in reports:  # right numbers first, then barriers for all, then fast
        all_reach_barriers(report, what=what)
        warps, steps = threads // 32, threads.bit_length() - 1
        used = sum(counts.requests for counts in report.atomics.values())
        hint = "a tree needs no atomics, and its sum does not depend on the order of the threads"
        said = f"{what} makes {used} atomic requests, do it without atomics"
        asked(used == 0, what=said, hint=hint, picture=report)
        requests, fewest = use(report, 0).counts.requests, blocks * warps
        said = f"{what} makes {requests} requests to load from in, {fewest} would do"
        hint = "each thread loads one element of in, once"
        asked(requests <= fewest, what=said, hint=hint, picture=report)
        requests, enough = use(report, None).counts.requests, blocks * (2 * steps * warps + warps)
        said = f"{what} makes {requests} requests to load from shared memory, {enough} are enough for a tree"
        hint = "numbers are added one after the other by a single thread; in a tree all pairs of a step add at once"
        asked(requests <= enough, what=said, hint=hint, picture=report)
