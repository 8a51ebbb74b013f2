import numpy as np

from common.check import expect, launch, require

# stride, channels, height, width: the sizes that it was tested with, then others
TESTED = ((1, 2, 7, 7), (1, 1, 5, 67), (2, 1, 8, 8), (2, 2, 32, 32))
OTHERS = ((2, 1, 1, 1), (2, 2, 7, 8), (2, 2, 8, 7), (2, 3, 9, 13), (2, 1, 6, 64), (2, 2, 5, 131))


def depthwise(x, weight, stride):
    """In float64: nine shifted copies of each padded channel, each times its weight, every stride-th pixel of it."""
    _, height, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = (padded[:, i : i + height, j : j + width] * weight[:, i, j, None, None] for i, j in np.ndindex(3, 3))
    return sum(windows)[:, ::stride, ::stride]


def check(source):
    random = np.random.default_rng()
    for stride, channels, height, width in (*TESTED, *OTHERS):
        what = f"depthwise of {channels} × {height} × {width} with stride {stride}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((channels, 3, 3)).astype(np.float32)
        want = depthwise(x, weight, stride).astype(np.float32)
        out_height, out_width = want.shape[1:]
        kept, y = x.copy(), np.full_like(want, np.nan)
        hints = {
            "out-of-bounds": f"which rows and columns does a window touch that are not there? Here s·oH is"
            f" {stride * out_height} and H is {height}, s·oW is {stride * out_width} and W is {width}; and a row of the"
            " tile has 65 places",
            "uninitialised-read": f"the window of output 31 begins at place s·31 = {31 * stride} and is 3 wide: is"
            " every place up to there written, also with a zero?",
            "race": "between the fill and the sums lies one barrier, for all; a place beyond the 65 of a row is one of"
            " the next row",
        }
        args = (x, weight, y, height, width, out_height, out_width, stride)
        grid = (-(-out_width // 32), out_height, channels)
        launch(source, "depthwise", grid, (32,), args, what=what, hints=hints)
        hint = "y holds NaN before the launch: is every output written, and from places that were filled?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        hint = (
            f"s·oH is {stride * out_height} and H is {height}, s·oW is {stride * out_width} and W is {width}: what is"
            " not in the image counts as 0, and neither the next row nor the next channel belongs there"
        )
        expect(y, want, what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="x is to be read only")
