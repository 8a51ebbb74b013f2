import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((7, 0), (1, 0), (3, 0), (4, 0), (33, 0), (130, 0), (1000, 0), (1021, 3))  # numbers, blocks more than needed
HINTS = {
    "race-global": "of the last numbers each needs one thread, not all of them",
    "out-of-bounds": "only n / 4 fours are whole; what is behind them is not a float4 any more",
    "misaligned": "a float4 starts at a multiple of 16 bytes: at number 0, 4, 8, … and nowhere else",
    "unwritten": "all four of a float4 are written, and the n % 4 numbers at the end",
}


def check(source):
    random = numpy_random()
    reports = []
    for n, more in shapes(source, random, SIZES, (5000, (3,))):
        what = f"vector_add of {n} numbers"
        a, b = (random.standard_normal(n).astype(np.float32) + shift for shift in (0.5, 2.0))
        if n > 500 or n == 3:
            a, b, what = sprinkled(random, a, huge=True), sprinkled(random, b), f"{what}, NaN and infinities among them"
        out = np.full(n, np.nan, np.float32)
        threads = int(random.choice((128, 32, 96, 256)))
        blocks = -(-max(n // 4, 1) // threads) + more
        args = (a, b, out, n)
        report = launch(source, "vector_add", (blocks,), (threads,), args, what=what, hints=HINTS, outputs=(out,))
        hint = "x, y, z and w of thread t's float4 are the numbers 4t to 4t + 3, in this order"
        with np.errstate(invalid="ignore", over="ignore"):
            compare(out, a + b, what=f"{what}: out", hint=hint)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        fewest = -(-(n // 4) // 32) + min(3, n % 4)  # whole warps of float4, then number by number if need be
        for name, counts, arrays in (("loads", report.global_loads, 2), ("stores", report.global_stores, 1)):
            asked(
                counts.requests <= arrays * fewest,
                what=f"{what} makes {counts.requests} requests for its {name}, {arrays * fewest} would do",
                hint="neighbouring threads take neighbouring fours, and each asks for its four in one access",
                picture=report,
            )
