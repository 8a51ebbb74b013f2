import numpy as np

from common.check import expect, launch, require

SIZES = (1, 7, 32, 49, 131)


def ideal_sectors(start, count):
    """Sectors of `count` floats from the float number `start` on."""
    return (4 * (start + count) - 1) // 32 - 4 * start // 32 + 1


def check(source):
    random = np.random.default_rng()
    reports = []
    for pixels in SIZES:
        what = f"nhwc_to_nchw of {pixels} pixels"
        x = random.standard_normal((pixels, 8)).astype(np.float32)
        kept, out = x.copy(), np.full((8, pixels), np.nan, np.float32)
        hints = {
            "race": "other threads wrote what a thread reads from the tile: __syncthreads between; and a row of the"
            " tile holds 32 pixels at least, a row of out no more than there are",
            "out-of-bounds": "the last block has fewer than 32 pixels, and a row of the tile takes 32",
            "uninitialised-read": "read of the tile what was written there: pixels that exist, channel first",
        }
        report = launch(source, "nhwc_to_nchw", (-(-pixels // 32),), (256,), (x, out, pixels), what=what, hints=hints)
        require(
            not np.isnan(out).any(),
            what=f"{what} leaves NaN in out",
            hint="out holds NaN before the launch: is every pixel written, those of the last block too?",
        )
        hint = "the element [c][p] of out is at c · pixels + p, and its pixel is counted from the block's first"
        expect(out, np.ascontiguousarray(x.T), what=f"{what}: out", hint=hint)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="in is to be read only")
        reports.append((what, pixels, report))

    for what, pixels, report in reports:  # right first, then fast
        blocks = range(0, pixels, 32)
        wanted = sum(8 * min(32, pixels - first) // 8 for first in blocks)
        got = report.global_loads.sectors
        hint = "read in as it lies there, 128 bytes a request, and turn it round in the tile"
        require(got <= wanted, what=f"{what} loads {got} sectors, {wanted} would do", hint=hint, picture=report)
        wanted = sum(ideal_sectors(c * pixels + f, min(32, pixels - f)) for c in range(8) for f in blocks)
        got = report.global_stores.sectors
        hint = "neighbouring lanes should write neighbouring pixels of one channel"
        require(got <= wanted, what=f"{what} stores {got} sectors, {wanted} would do", hint=hint, picture=report)
        for name, counts in (("stores to", report.shared_stores), ("loads from", report.shared_loads)):
            hint = (
                "tile[c][p] lies in bank (c · length + p) % 32: which length puts 8 channels × 4 pixels into 32 banks?"
            )
            said = f"{what}: {name} the tile take {counts.wavefronts} wavefronts, {counts.ideal} would do"
            require(counts.conflicts == 0, what=said, hint=hint, picture=report)
