import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((33, 0), (1, 0), (7, 0), (8, 0), (256, 1), (1000, 0), (2047, 2))  # halves, blocks more than needed
HINTS = {
    "out-of-bounds": "a uint4 holds eight halves: there must be eight, 8·i + 8 ≤ n, else go one by one",
    "misaligned": "16 bytes start at a multiple of 16: cast the array to uint4 and take its element i, which is"
    " half number 8·i",
    "race-global": "the halves at the end belong to one thread, the one whose group they are in",
    "unwritten": "n need not be a multiple of 8: who writes the halves at the end?",
}


def check(source):
    random = numpy_random()
    reports = []
    for n, more in shapes(source, random, SIZES, (5000, (3,))):
        what = f"clamp_halves of {n} halves"
        x = (6 * random.standard_normal(n) + 3).astype(np.float16)
        y, threads = np.full(n, np.nan, np.float16), int(random.choice((64, 32, 96, 256)))
        if n > 200:
            x, what = sprinkled(random, x, huge=True), f"{what}, NaN and infinities among them"
        grid, args = (-(-n // (8 * threads)) + more,), (x, y, n)
        report = launch(source, "clamp_halves", grid, (threads,), args, what=what, hints=HINTS, outputs=(y,))
        hint = "each of the eight halves is held between 0 and 6, and stays where it was"
        known = [(x, "these are the halves of x: they are to be held between 0 and 6")]
        compare(y, np.clip(x, 0, 6), what=f"{what}: y", hint=hint, mistakes=known)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        fewest = n // 8 + n % 8
        for name, counts in (("loads", report.global_loads), ("stores", report.global_stores)):
            got = counts.accesses
            hint = "all eight halves of a group in one access: a uint4 to and from memory, its parts in registers"
            said = f"{what}: threads make {got} {name}, {fewest} would do"
            asked(got <= fewest, what=said, hint=hint, picture=report)
        most = -(-2 * n // 32) + n % 8
        got = report.global_loads.sectors
        hint = "neighbouring threads should take neighbouring groups"
        asked(got <= most, what=f"{what} loads {got} sectors, {most} would do", hint=hint, picture=report)
