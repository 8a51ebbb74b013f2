import numpy as np

from common.check import launch
from common.check.kernels import all_reach_barriers, asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

# images, pixels, channels
SIZES = ((2, 49, 7), (1, 1, 1), (3, 5, 33), (1, 49, 64), (2, 50, 100))


def fewest_sectors(rows, channels):
    """Of requests for 32 neighbouring channels each, of every row of `channels` numbers."""
    starts = [(row * channels + c, min(32, channels - c)) for row in range(rows) for c in range(0, channels, 32)]
    return sum((4 * (first + count) - 1) // 32 - 4 * first // 32 + 1 for first, count in starts)


def mistakes(x):
    """What comes of some mistakes, by the hint that each deserves."""
    images, pixels, channels = x.shape
    wide = x.astype(np.float64)
    yield wide.sum(1), "a mean is the sum over the number of pixels"
    yield wide[:, : pixels // 8 * 8].sum(1) / pixels, "the last pixels, fewer than there are warps, are in the mean too"
    yield wide[:, 1:].sum(1) / pixels, "the first pixel is in the mean too"
    yield wide[:, :-1].sum(1) / pixels, "the last pixel is in the mean too"
    yield wide[:, ::8].sum(1) / pixels, "every warp's sum is in the mean, not only warp 0's"
    yield (wide.sum(1) + wide[:, ::8].sum(1)) / pixels, "warp 0's sum is in the mean twice"
    for warp in range(8):
        kept = np.arange(pixels) % 8 != warp
        yield wide[:, kept].sum(1) / pixels, f"every warp's sum is in the mean; that of warp {warp} is missing"
    yield wide.reshape(images, channels, pixels).mean(2), "x is NHWC: x[n][p][c] is at (n · pixels + p) · channels + c"


def check(source):
    random = numpy_random()
    reports = []
    for images, pixels, channels in shapes(source, random, SIZES, (3, 600, 150)):
        what = f"channels_last_mean of {images} images of {pixels} pixels × {channels} channels"
        x = random.standard_normal((images, pixels, channels)).astype(np.float32) + 0.5
        reports.append((what, images, pixels, channels, run(source, x, what)))
    run(source, sprinkled(random, x), f"{what}, among them NaN and infinities")

    for what, images, pixels, channels, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(images * pixels, channels)
        hint = "in one request the 32 lanes should read 32 channels of the same pixel"
        asked(got <= 1.1 * fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        got, fewest = report.global_stores.sectors, fewest_sectors(images, channels)
        hint = "one warp writes 32 neighbouring channels, once"
        asked(got <= fewest, what=f"{what} stores {got} sectors, {fewest} would do", hint=hint, picture=report)
        got, fewest = use(report, 0).warps, -(-pixels // -(-pixels // 8))  # shares of equal size
        hint = "the pixels are to be shared out among the 8 warps"
        asked(got >= fewest, what=f"{what}: {got} of 8 warps read x", hint=hint, picture=report)
        for name, counts in (("stores to", report.shared_stores), ("loads from", report.shared_loads)):
            said = f"{what}: {name} s take {counts.wavefronts} wavefronts, {counts.ideal} would do"
            hint = "lanes of a warp should touch neighbouring words of s: the channel is the index that runs fastest"
            asked(counts.conflicts == 0, what=said, hint=hint, picture=report)


def run(source, x, what):
    images, pixels, channels = x.shape
    out = np.full((images, channels), np.nan, np.float32)
    hints = {
        "race": "what other warps wrote to s may be read after a __syncthreads; and one warp writes to out",
        "out-of-bounds": "the last block of an image has lanes without a channel, and a share may have no pixel",
        "uninitialised-read": "every warp must write its sums to s, also one without a pixel",
        "deadlock": "lanes without a channel must come to the same __syncthreads as the others",
        "divergent-barrier": "lanes without a channel must come to the same __syncthreads as the others",
        "race-global": "one warp writes to out, the means of the block's 32 channels",
        "unwritten": "every channel of every image is written, those of the last block too: blockIdx.y is the image",
    }
    grid, args = (-(-channels // 32), images), (x, out, pixels, channels)
    report = launch(
        source, "channels_last_mean", grid, (32, 8), args, what=what, hints=hints, outputs=(out,)
    )  # fmt: skip
    hint = "x[n][p][c] is at (n · pixels + p) · channels + c, and each of the 8 warps has a share of the pixels"
    with np.errstate(invalid="ignore"):
        want, known = x.mean(axis=1, dtype=np.float64), list(mistakes(x))
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * pixels**0.5)
    all_reach_barriers(report, what=what)
    return report
