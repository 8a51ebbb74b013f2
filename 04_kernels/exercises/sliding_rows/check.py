import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((5, 6, 17), (1, 1, 1), (7, 1, 5), (1, 7, 33), (32, 9, 7))  # channels, height, width


def depthwise(x, weight):
    """In float64: nine shifted copies of the padded image, each times its weights."""
    height, width, _ = x.shape
    padded = np.pad(x.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    return sum(padded[i : i + height, j : j + width] * weight[i, j] for i, j in np.ndindex(3, 3))


def fewest_sectors(channels, height, width, threads):
    """Of the loads of x, if each warp asks once for each row and each of the three columns of its threads."""
    column, channel = np.divmod(np.arange(-(-channels * width // threads) * threads), channels)
    sectors = 0
    for j in (-1, 0, 1):
        inside = (column < width) & (column + j >= 0) & (column + j < width)
        for warp in range(0, len(column), 32):
            lanes = slice(warp, warp + 32)
            index = ((column[lanes] + j) * channels + channel[lanes])[inside[lanes]]
            sectors += sum(len(np.unique((h * width * channels + index) * 4 // 32)) for h in range(height))
    return sectors


HINTS = {
    "out-of-bounds": "left of column 0, right of the last one and below the last row there is nothing to load;"
    " and the last block has threads without a column",
    "race-global": "a thread writes the numbers of its own column and channel, and no others",
    "unwritten": "every row of every column is written",
}


def run(source, x, weight, threads, what):
    height, width, channels = x.shape
    y = np.full_like(x, np.nan)
    args = (x, weight, y, channels, height, width)
    grid = (-(-channels * width // threads),)
    report = launch(source, "depthwise", grid, (threads,), args, what=what, hints=HINTS, outputs=(y,))
    with np.errstate(invalid="ignore"):
        want = depthwise(x, weight)
        none = np.zeros_like(weight[:1])
        known = [
            (depthwise(x, np.concatenate([none, weight[1:]])), "the row above is missing from the sums"),
            (depthwise(x, np.concatenate([weight[:2], none])), "the row below is missing from the sums"),
            (depthwise(x, weight[::-1]), "weight[0] belongs to the row above, weight[2] to the row below"),
            (depthwise(x, weight.swapaxes(0, 1)), "weight[i][j] belongs to row h + i − 1 and column w + j − 1"),
        ]
    hint = (
        "in row h, above, here and below are the rows h - 1, h and h + 1, and 0 where there is none: also before"
        " the first row, behind the last, and left and right of the image. x[h][w][c] is at (h * W + w) * C + c,"
        " and weight[i][j][c] at (i * 3 + j) * C + c"
    )
    compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for channels, height, width in shapes(source, random, SIZES, (70, 20, 30)):
        what = f"depthwise of {height} × {width} pixels, {channels} channels"
        x = random.standard_normal((height, width, channels)).astype(np.float32) + 0.5
        weight = random.standard_normal((3, 3, channels)).astype(np.float32)
        threads = int(random.choice((64, 32, 96, 256)))
        reports.append((what, (channels, height, width, threads), run(source, x, weight, threads, what)))
        if channels == 5:
            run(source, sprinkled(random, x), weight, threads, f"{what}, NaN and infinities in x")

    for what, (channels, height, width, threads), report in reports:  # right first, then frugal
        columns = sum(min(w + 2, width) - max(w - 1, 0) for w in range(width))
        for number, array, wanted in ((0, "x", columns * channels * height), (1, "weight", 9 * channels * width)):
            got = use(report, number).counts.accesses
            hint = (
                "a row that comes in as `below` is `here` one step later and `above` after two: three loads a step"
                if array == "x"
                else "the nine weights are the same in every row: load them before the loop"
            )
            said = f"{what} loads {got} numbers of {array}, {wanted} would do"
            asked(got <= wanted, what=said, hint=hint, picture=report)
        got = use(report, 0).counts.sectors
        wanted = fewest_sectors(channels, height, width, threads)
        hint = "in a request all lanes should ask for the same row and the same of the three columns"
        asked(got <= wanted, what=f"{what} loads {got} sectors of x, {wanted} would do", hint=hint, picture=report)
