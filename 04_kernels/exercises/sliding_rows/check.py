import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1, 1), (7, 1, 5), (1, 7, 33), (5, 6, 17), (32, 9, 7))  # channels, height, width
THREADS = 64


def depthwise(x, weight):
    """In float64: nine shifted copies of the padded image, each times its weights."""
    height, width, _ = x.shape
    padded = np.pad(x.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    return sum(padded[i : i + height, j : j + width] * weight[i, j] for i, j in np.ndindex(3, 3))


def fewest_sectors(channels, height, width):
    """Of the loads of x, if each warp asks once for each row and each of the three columns of its threads."""
    column, channel = np.divmod(np.arange(-(-channels * width // THREADS) * THREADS), channels)
    sectors = 0
    for j in (-1, 0, 1):
        inside = (column < width) & (column + j >= 0) & (column + j < width)
        for warp in range(0, len(column), 32):
            lanes = slice(warp, warp + 32)
            index = ((column[lanes] + j) * channels + channel[lanes])[inside[lanes]]
            sectors += sum(len(np.unique((h * width * channels + index) * 4 // 32)) for h in range(height))
    return sectors


def check(source):
    random = np.random.default_rng()
    reports = []
    for channels, height, width in SIZES:
        what = f"depthwise of {height} × {width} pixels, {channels} channels"
        x = random.standard_normal((height, width, channels)).astype(np.float32) + 0.5
        weight = random.standard_normal((3, 3, channels)).astype(np.float32)
        kept, y = x.copy(), np.full_like(x, np.nan)
        hints = {
            "out-of-bounds": "left of column 0, right of the last one and below the last row there is nothing to load;"
            " and the last block has threads without a column",
            "race": "a thread writes the numbers of its own column and channel, and no others",
        }
        args = (x, weight, y, channels, height, width)
        grid = (-(-channels * width // THREADS),)
        report = launch(source, "depthwise", grid, (THREADS,), args, what=what, hints=hints)
        hint = "y holds NaN before the launch: every row of every column is written, and what is read was set before"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        hint = (
            "in row h, above, here and below are the rows h - 1, h and h + 1, and 0 where there is none: also before"
            " the first row, behind the last, and left and right of the image. x[h][w][c] is at (h * W + w) * C + c,"
            " and weight[i][j][c] at (i * 3 + j) * C + c"
        )
        expect(y, depthwise(x, weight).astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="x is to be read only")
        reports.append((what, (channels, height, width), report))

    for what, (channels, height, width), report in reports:  # right first, then frugal
        columns = sum(min(w + 2, width) - max(w - 1, 0) for w in range(width))
        for array, wanted in (("x", columns * channels * height), ("weight", 9 * channels * width)):
            got = sum(e.counts.accesses for e in report.lines if (e.array, e.kind) == (array, "load"))
            hint = (
                "a row that comes in as `below` is `here` one step later and `above` after two: three loads a step"
                if array == "x"
                else "the nine weights are the same in every row: load them before the loop"
            )
            said = f"{what} loads {got} numbers of {array}, {wanted} would do"
            require(got <= wanted, what=said, hint=hint, picture=report)
        got = sum(e.counts.units for e in report.lines if (e.array, e.kind) == ("x", "load"))
        wanted = fewest_sectors(channels, height, width)
        hint = "in a request all lanes should ask for the same row and the same of the three columns"
        require(got <= wanted, what=f"{what} loads {got} sectors of x, {wanted} would do", hint=hint, picture=report)
