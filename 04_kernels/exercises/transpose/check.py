import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled, target
from common.check.trials import numpy_random

SIZES = ((64, 96), (1, 1), (33, 32), (7, 50), (40, 33))
HINTS = {
    "race": "one thread writes a number of the tile, another one reads it: all threads of the block must meet between",
    "out-of-bounds": "height and width need not be multiples of 32: both halves need a guard, each its own",
    "shared-bounds": "the tile has 32 rows; a second index of 32 or more must fit into a row",
    "unwritten": "every number of out is written, those of the blocks at the border too: the second half compares x"
    " with height and y with width",
    "race-global": "two blocks write one number of out: the second half compares x with height and y with width",
    "uninitialised-read": "read of the tile what was written there: in the second half row and column are swapped",
}


def check(source):
    random = numpy_random()
    reports = []
    for height, width in shapes(source, random, SIZES, (70, 70)):
        what = f"transpose of {height} × {width}"
        x = random.standard_normal((height, width)).astype(np.float32)
        if height * width > 1000:
            x, what = sprinkled(random, x, huge=True), f"{what}, NaN and infinities among them"
        out = np.full((width, height), np.nan, np.float32)
        grid = (-(-width // 32), -(-height // 32))
        args = (x, out, height, width)
        report = launch(source, "transpose", grid, (32, 32), args, what=what, hints=HINTS, outputs=(out,))
        known = [
            (x.reshape(width, height), "these are the numbers of `in` in their old order: out[x][y] is in[y][x]"),
        ]
        hint = "the block's corner moves too: its columns of `in` are its rows of out"
        compare(out, x.T, what=f"{what}: out", hint=hint, mistakes=known)
        reports.append((what, height, width, report))

    for what, height, width, report in reports:  # right first, then fast
        for name, counts, rows, length in (
            ("loaded", report.global_loads, height, width),
            ("stored", report.global_stores, width, height),
        ):
            possible = sum(
                (4 * (r * length + min(c + 32, length)) - 1) // 32 - 4 * (r * length + c) // 32 + 1
                for r in range(rows)
                for c in range(0, length, 32)
            )
            target(
                counts.sectors,
                possible,
                f"sectors {name}",
                what=what,
                picture=report,
                hint="neighbouring lanes should touch neighbours in memory, when they load and when they store",
            )
    for what, _, _, report in reports:
        for name, counts in (("stores to", report.shared_stores), ("loads from", report.shared_loads)):
            target(
                counts.wavefronts,
                counts.ideal,
                f"wavefronts of the {name} shared memory",
                what=what,
                picture=report,
                hint="with rows of L numbers, tile[r][c] is in bank (L · r + c) % 32: which L spreads a column?",
            )
