import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((49,), (1,), (7,), (32,), (131,))


def ideal_sectors(start, count):
    """Sectors of `count` floats from the float number `start` on."""
    return (4 * (start + count) - 1) // 32 - 4 * start // 32 + 1


def check(source):
    random = numpy_random()
    reports = []
    for (pixels,) in shapes(source, random, SIZES, (5000,)):
        what = f"nhwc_to_nchw of {pixels} pixels"
        x = random.standard_normal((pixels, 8)).astype(np.float32)
        if pixels > 100:
            x, what = sprinkled(random, x, huge=True), f"{what}, NaN and infinities among them"
        out = np.full((8, pixels), np.nan, np.float32)
        hints = {
            "race": "other threads wrote what a thread reads from the tile: __syncthreads between; and a row of the"
            " tile holds 32 pixels at least, a row of out no more than there are",
            "out-of-bounds": "the last block has fewer than 32 pixels",
            "shared-bounds": "the tile has 8 rows, one for each channel, and a row takes 32 pixels",
            "unwritten": "every pixel of every channel is written, those of the last block too",
            "uninitialised-read": "read of the tile what was written there: pixels that exist, channel first",
        }
        report = launch(
            source, "nhwc_to_nchw", (-(-pixels // 32),), (256,), (x, out, pixels), what=what, hints=hints,
            outputs=(out,),
        )  # fmt: skip
        hint = "the element [c][p] of out is at c · pixels + p, and its pixel is counted from the block's first"
        known = [(x.reshape(8, pixels), "these are the numbers as they lie in `in`: out[c][p] is in[p][c]")]
        compare(out, x.T, what=f"{what}: out", hint=hint, mistakes=known)
        reports.append((what, pixels, report))

    for what, pixels, report in reports:  # right first, then fast
        blocks = range(0, pixels, 32)
        wanted = sum(8 * min(32, pixels - first) // 8 for first in blocks)
        got = report.global_loads.sectors
        hint = "read in as it lies there, 128 bytes a request, and turn it round in the tile"
        asked(got <= wanted, what=f"{what} loads {got} sectors, {wanted} would do", hint=hint, picture=report)
        wanted = sum(ideal_sectors(c * pixels + f, min(32, pixels - f)) for c in range(8) for f in blocks)
        got = report.global_stores.sectors
        hint = "neighbouring lanes should write neighbouring pixels of one channel"
        asked(got <= wanted, what=f"{what} stores {got} sectors, {wanted} would do", hint=hint, picture=report)
        for name, counts in (("stores to", report.shared_stores), ("loads from", report.shared_loads)):
            hint = (
                "tile[c][p] lies in bank (c · length + p) % 32: which length puts 8 channels × 4 pixels into 32 banks?"
            )
            said = f"{what}: {name} the tile take {counts.wavefronts} wavefronts, {counts.ideal} would do"
            asked(counts.conflicts == 0, what=said, hint=hint, picture=report)
