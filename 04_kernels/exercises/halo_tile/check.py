import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((2, 7, 7), (1, 1, 1), (1, 8, 16), (3, 9, 17), (2, 17, 33))  # channels, height, width
HINTS = {
    "out-of-bounds": "a place of the tile may belong to a pixel outside of the image, and so may a thread of"
    " the last blocks: ask for all four edges before reading, for two before writing",
    "uninitialised-read": "128 threads fill 180 places, so some fill two; and a place outside of the image gets 0",
    "race": "one thread fills a place of the tile, others read it: __syncthreads lies between; and one thread"
    " writes a number of y",
    "unwritten": "every pixel of the image is written, those of the last blocks too",
}


def depthwise(x, weight):
    """In float64: nine shifted copies of each padded channel, each times its weight."""
    _, height, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = (padded[:, i : i + height, j : j + width] * weight[:, i, j, None, None] for i, j in np.ndindex(3, 3))
    return sum(windows)


def run(source, x, weight, what):
    channels, height, width = x.shape
    y = np.full_like(x, np.nan)
    grid = (-(-width // 16), -(-height // 8), channels)
    args = (x, weight, y, height, width)
    report = launch(source, "depthwise", grid, (16, 8), args, what=what, hints=HINTS, outputs=(y,))
    hint = (
        "tile[r][k] is row first_h + r - 1 and column first_w + k - 1 of channel c, (c * H + row) * W + column in"
        " x; above, below, left and right of the image it is 0, and not a pixel of the row or channel next to it"
    )
    with np.errstate(invalid="ignore"):
        compare(y, depthwise(x, weight), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for channels, height, width in shapes(source, random, SIZES, (5, 40, 60)):
        what = f"depthwise of {channels} × {height} × {width}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((channels, 3, 3)).astype(np.float32)
        reports.append((what, x.shape, run(source, x, weight, what)))
        if (height, width) == (9, 17):
            run(source, sprinkled(random, x), weight, f"{what}, NaN and infinities in x")

    for what, (channels, height, width), report in reports:  # right first, then frugal
        rows = [min(top + 9, height) - max(top - 1, 0) for top in range(0, height, 8)]
        columns = [min(left + 17, width) - max(left - 1, 0) for left in range(0, width, 16)]
        wanted = channels * sum(rows) * sum(columns)
        got = use(report, 0).counts.bytes // 4
        hint = "each number of the tile comes from x once; the nine of a sum come from the tile"
        asked(got <= wanted, what=f"{what} loads {got} numbers of x, {wanted} would do", hint=hint, picture=report)
        got, wanted = use(report, None, "store").warps, 4
        hint = "the 180 places of the tile are the work of all 128 threads; the nine of a sum come from the tile"
        asked(got == wanted, what=f"{what}: {got} of 4 warps fill the tile", hint=hint, picture=report)
