import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled
from common.check.trials import numpy_random

# stride, channels, height, width: the sizes that it was tested with, then others
TESTED = ((1, 2, 7, 7), (1, 1, 5, 67), (2, 1, 8, 8), (2, 2, 32, 32))
OTHERS = ((2, 1, 1, 1), (2, 2, 7, 8), (2, 2, 8, 7), (2, 3, 9, 13), (2, 1, 6, 64), (2, 2, 5, 131))


def depthwise(x, weight, stride):
    """In float64: nine shifted copies of each padded channel, each times its weight, every stride-th pixel of it."""
    _, height, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = (padded[:, i : i + height, j : j + width] * weight[:, i, j, None, None] for i, j in np.ndindex(3, 3))
    return sum(windows)[:, ::stride, ::stride]


def run(source, x, weight, stride, what):
    _, height, width = x.shape
    with np.errstate(invalid="ignore"):
        want = depthwise(x, weight, stride)
    channels, out_height, out_width = want.shape
    y = np.full(want.shape, np.nan, np.float32)
    hints = {
        "out-of-bounds": f"which rows and columns does a window touch that are not there? Here s·oH is"
        f" {stride * out_height} and H is {height}, s·oW is {stride * out_width} and W is {width}",
        "shared-bounds": "a row of the tile has 65 places, and there are three rows",
        "uninitialised-read": f"the window of output 31 begins at place s·31 = {31 * stride} and is 3 wide: is"
        " every place up to there written, also with a zero?",
        "race": "between the fill and the sums lies one barrier, for all; a place beyond the 65 of a row is one of"
        " the next row",
        "unwritten": "every output of the row has a thread: first + t",
    }
    args = (x, weight, y, height, width, out_height, out_width, stride)
    grid = (-(-out_width // 32), out_height, channels)
    launch(source, "depthwise", grid, (32,), args, what=what, hints=hints, outputs=(y,))
    hint = (
        "with these sizes it was right before: rows[i][k] is row s·oh + i − 1 and column s·first + k − 1, or 0 outside"
    )
    if stride * out_height != height or stride * out_width != width or stride == 2:
        hint = (
            f"s·oH is {stride * out_height} and H is {height}, s·oW is {stride * out_width} and W is {width}: what is"
            " not in the image counts as 0, and neither the next row nor the next channel belongs there"
        )
    compare(y, want, what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)


def check(source):
    random = numpy_random()
    drawn = [
        (int(random.integers(1, 3)), c, h, w) for c, h, w in shapes(source, random, (), (6, 20, 150), draws=6)
    ]  # fmt: skip
    for stride, channels, height, width in (*TESTED, *OTHERS, *drawn):
        what = f"depthwise of {channels} × {height} × {width} with stride {stride}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((channels, 3, 3)).astype(np.float32)
        run(source, x, weight, stride, what)
        if (height, width) in ((7, 7), (9, 13)):
            run(source, sprinkled(random, x), weight, stride, f"{what}, NaN and infinities among them")
