import numpy as np

from common.check import launch
from common.check.kernels import compare, one_element_each, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((40, 70), (70, 40), (1, 50), (50, 1))
_BOUNDS = "guard both directions: row < height and column < width. Element (row, column) is at row * width + column"
HINTS = {
    "out-of-bounds": _BOUNDS,
    "below-0": _BOUNDS,
    "race-global": "two threads use the same element. Element (row, column) is at row * width + column; blocks must be"
    " told apart; and no thread with column >= width may be let through: its element belongs to the next row",
    "unwritten": "which thread has this element, and does the guard let it through? x counts columns and y counts rows,"
    " over the whole grid and for any block. Element (row, column) is at row * width + column",
    "output-read": "the row's number is added to in, not to what out held before the launch",
}


def check(source):
    random = numpy_random()
    reports = []
    for height, width in shapes(source, random, SIZES, (90, 90)):
        block = [(32, 4), (8, 8), (16, 16), (4, 32), (32, 16)][random.integers(5)]
        grid = (-(-width // block[0]), -(-height // block[1]))
        what = f"add_the_row of a {height} × {width} matrix in blocks of {block[0]} × {block[1]} threads"
        x = random.standard_normal((height, width)).astype(np.float32) + 0.5
        if (height, width) == (70, 40):
            x = sprinkled(random, x, huge=True)
        out = np.full((height, width), np.nan, np.float32)
        args = (x, out, height, width)
        report = launch(source, "add_the_row", grid, block, args, what=what, hints=HINTS, outputs=(out,))
        row, column = np.indices((height, width), np.float32)
        by_columns = np.arange(height * width, dtype=np.float32).reshape(height, width) % height
        mistakes = [
            (x, "these are the numbers of in: the number of the row is added to each"),
            (x + column, "the number of the row is added, this is the column's"),
            (x + row % block[1], "the row is counted over the whole grid, not within its block"),
            (x + by_columns, "a row has width elements: element (row, column) is at row * width + column"),
        ]
        hint = "the number of the row is added, counted over the whole grid; a row has width elements"
        compare(out, x + row, what=f"{what}: out", hint=hint, mistakes=mistakes)
        reports.append((what, out.size, grid[0] * grid[1] * -(-block[0] * block[1] // 32), report))

    for what, size, warps, report in reports:  # right first, then all threads at work
        one_element_each(report, 1, size, warps, what=what)
