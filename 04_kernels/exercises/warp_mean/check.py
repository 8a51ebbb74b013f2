import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

# channels, pixels, threads in a block
WHOLE_WARPS = ((3, 49, 64), (2, 7, 32), (3, 101, 96), (1, 2000, 1024))
PARTIAL_WARPS = ((2, 49, 49), (1, 1, 1), (2, 7, 33), (2, 49, 20), (2, 1000, 225))


def fewest_sectors(channels, pixels, threads):
    """Of the loads when each request takes the next numbers of a channel, a warp's at a time."""
    requests = [
        (channel * pixels + start + warp, min(32, threads - warp, pixels - start - warp))
        for channel in range(channels)
        for start in range(0, pixels, threads)
        for warp in range(0, min(threads, pixels - start), 32)
    ]
    return sum((4 * (first + count) - 1) // 32 - 4 * first // 32 + 1 for first, count in requests)


HINTS = {
    "race": "one lane of each warp writes to s, and nobody reads there before a __syncthreads",
    "uninitialised-read": "s holds as many sums as the block has warps: no more of them may be read",
    "deadlock": "every lane that the mask names must come to the shuffle, also one that adds nothing; and every"
    " thread of the block to the same __syncthreads",
    "out-of-bounds": "the threads may be more than the pixels, and the pixels no multiple of the threads",
    "race-global": "one thread of the block writes its channel's mean",
    "unwritten": "one thread writes the mean, also if the block is a single warp",
}


def mistakes(x, threads):
    """What comes of some mistakes, by the hint that each deserves."""
    pixels, wide = x.shape[1], x.astype(np.float64)
    thread = np.arange(pixels) % threads
    yield wide.sum(1), "the mean is the sum over the number of pixels"
    yield wide.sum(1) / threads, "the mean is the sum over the number of pixels, not of threads"
    yield wide[:, thread < 32].sum(1) / pixels, "this is warp 0's sum alone: the other warps' sums are in s"
    yield wide[:, thread >= 32].sum(1) / pixels, "warp 0's sum is missing"
    yield wide[:, thread < threads // 32 * 32].sum(1) / pixels, "the last warp, which is not whole, has pixels too"
    yield wide[:, : pixels // threads * threads].sum(1) / pixels, "the pixels of the last round belong to the mean"
    yield wide[:, :threads].sum(1) / pixels, "a thread takes more than one pixel if there are more than threads"
    yield wide[:, thread % 32 == 0].sum(1) / pixels, "these are the shares of the lanes 0 alone"


def run(source, x, threads, what):
    channels, pixels = x.shape
    out = np.full(channels, np.nan, np.float32)
    args = (x, out, pixels)
    report = launch(source, "warp_mean", (channels,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
    if threads % 32:
        hint = (
            f"the last warp has only {threads % 32} of 32 lanes: what a shuffle brings from one that is not there"
            " does not belong to the sum"
        )
    else:
        hint = "all warps are whole here: every pixel is in the sum once, and every warp's sum in the block's"
    with np.errstate(invalid="ignore"):
        want, known = x.mean(axis=1, dtype=np.float64), list(mistakes(x, threads))
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6)
    return report


def check(source):
    random = numpy_random()
    reports = []
    whole = [(c, p, 32 * w) for c, p, w in shapes(source, random, (), (4, 2000, (32,)))]
    drawn = shapes(source, random, (), (4, 2000, (1024,)))
    for channels, pixels, threads in (*WHOLE_WARPS, *whole, *PARTIAL_WARPS, *drawn):
        what = f"warp_mean of {channels} × {pixels} numbers with blocks of {threads}"
        x = random.standard_normal((channels, pixels)).astype(np.float32) + 0.5
        reports.append((what, channels, pixels, threads, run(source, x, threads, what)))
    x = sprinkled(random, random.standard_normal((8, 90)).astype(np.float32))
    run(source, x, 49, "warp_mean of 8 × 90 numbers with blocks of 49, NaN and infinities among them")

    for what, channels, pixels, threads, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(channels, pixels, threads)
        hint = "neighbouring threads should read neighbouring pixels: thread t takes t, t + threads, …"
        asked(got <= 1.1 * fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        got, warps = report.shared_stores.accesses, channels * -(-threads // 32)
        hint = "within a warp the sums go from register to register; s is for one number a warp"
        asked(got <= 2 * warps, what=f"{what} stores {got} numbers to s", hint=hint, picture=report)
