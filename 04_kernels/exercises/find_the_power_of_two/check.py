import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

# channels, pixels, threads in a block
LAUNCHES = ((3, 49, 64), (1, 1, 1), (2, 49, 7), (3, 49, 49), (5, 17, 6), (2, 1000, 256), (2, 301, 100), (2, 500, 255))
NOBODY = "s holds as many sums as the block has threads; what is behind them nobody has written"
HINTS = {
    "uninitialised-read": NOBODY,
    "shared-bounds": NOBODY,
    "race": "within one step, what one thread writes no other may read or write; between two steps lies a"
    " __syncthreads",
    "unwritten": "one thread of the block writes the mean, whatever the number of threads",
}


def mistakes(x, threads):
    """What comes of some mistakes, by the hint that each deserves."""
    pixels, wide = x.shape[1], x.astype(np.float64)
    yield wide.sum(1), "the mean is the sum over the number of pixels"
    yield wide.sum(1) / threads, "the mean is the sum over the number of pixels, not of threads"
    if threads & (threads - 1):
        first = wide[:, np.arange(pixels) % threads < 1 << (threads.bit_length() - 1)].sum(1) / pixels
        yield first, "the sums of the last threads, those beyond a power of two, are lost"


def run(source, x, threads, what):
    channels, pixels = x.shape
    out = np.full(channels, np.nan, np.float32)
    args = (x, out, pixels)
    report = launch(source, "channel_means", (channels,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
    if threads & (threads - 1):
        hint = "with 7 threads, which sums are added to which in the first step, and in the second? Which never?"
    else:
        hint = "with this block it was right before: the sum of all pixels, each once, over their number"
    with np.errstate(invalid="ignore"):
        want, known = x.mean(axis=1, dtype=np.float64), list(mistakes(x, threads))
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6)
    return report


def check(source):
    random = numpy_random()
    reports = []
    drawn = shapes(source, random, (), (4, 2000, (256,)), draws=6)
    for channels, pixels, threads in (*LAUNCHES, *drawn):
        what = f"channel_means of {channels} × {pixels} numbers with blocks of {threads}"
        x = random.standard_normal((channels, pixels)).astype(np.float32) + 0.5
        reports.append((what, channels, threads, run(source, x, threads, what)))
    x = sprinkled(random, random.standard_normal((9, 50)).astype(np.float32))
    run(source, x, 48, "channel_means of 9 × 50 numbers with blocks of 48, NaN and infinities among them")

    for what, channels, threads, report in reports:  # right first, then fast
        got = report.shared_loads.requests / channels
        hint = "half of the threads add at the same time; a single one that adds up all sums is what the tree is for"
        asked(got <= 24 + threads / 4, what=f"{what} loads {got:.0f} times from s", hint=hint, picture=report)
