import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1, 1), (2, 7, 7), (1, 8, 16), (3, 9, 17), (2, 17, 33))  # channels, height, width


def depthwise(x, weight):
    """In float64: nine shifted copies of each padded channel, each times its weight."""
    _, height, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = (padded[:, i : i + height, j : j + width] * weight[:, i, j, None, None] for i, j in np.ndindex(3, 3))
    return sum(windows)


def check(source):
    random = np.random.default_rng()
    reports = []
    for channels, height, width in SIZES:
        what = f"depthwise of {channels} × {height} × {width}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((channels, 3, 3)).astype(np.float32)
        kept, y = x.copy(), np.full_like(x, np.nan)
        grid = (-(-width // 16), -(-height // 8), channels)
        hints = {
            "out-of-bounds": "a place of the tile may belong to a pixel outside of the image, and so may a thread of"
            " the last blocks: ask for all four edges before reading, for two before writing",
            "uninitialised-read": "128 threads fill 180 places, so some fill two; and a place outside of the image gets"
            " 0",
            "race": "one thread fills a place of the tile, others read it: __syncthreads lies between; and one thread"
            " writes a number of y",
        }
        args = (x, weight, y, height, width)
        report = launch(source, "depthwise", grid, (16, 8), args, what=what, hints=hints)
        hint = "y holds NaN before the launch: every pixel of the image is written, and no place of the tile is left"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        hint = (
            "tile[r][k] is row first_h + r - 1 and column first_w + k - 1 of channel c, (c * H + row) * W + column in"
            " x; above, below, left and right of the image it is 0, and not a pixel of the row or channel next to it"
        )
        expect(y, depthwise(x, weight).astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="x is to be read only")
        reports.append((what, x.shape, report))

    for what, (channels, height, width), report in reports:  # right first, then frugal
        rows = [min(top + 9, height) - max(top - 1, 0) for top in range(0, height, 8)]
        columns = [min(left + 17, width) - max(left - 1, 0) for left in range(0, width, 16)]
        wanted = channels * sum(rows) * sum(columns)
        got = sum(e.counts.accesses for e in report.lines if (e.array, e.kind) == ("x", "load"))
        hint = "each number of the tile comes from x once; the nine of a sum come from the tile"
        require(got <= wanted, what=f"{what} loads {got} numbers of x, {wanted} would do", hint=hint, picture=report)
