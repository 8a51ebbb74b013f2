import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

# n, blocks, threads in a block
LAUNCHES = ((33, 1, 32), (1, 1, 32), (7, 2, 32), (1009, 3, 96), (4099, 2, 256), (50, 5, 64))
HINTS = {
    "race-global": "each number belongs to one thread of one block: two of them are apart by how many numbers?",
    "out-of-bounds": "there may be more threads than numbers, and the last round need not be full",
    "unwritten": "every number has a thread, also if there are fewer threads than numbers",
}


def check(source):
    random = numpy_random()
    reports = []
    for n, blocks, threads in shapes(source, random, LAUNCHES, (5000, (9,), (1024,)), draws=8):
        what = f"grid_stride_add of {n} numbers with {blocks} × {threads} threads"
        a, b = (random.standard_normal(n).astype(np.float32) + shift for shift in (0.5, 2.0))
        if n > 500:
            a, b, what = sprinkled(random, a, huge=True), sprinkled(random, b), f"{what}, NaN and infinities among them"
        out = np.full(n, np.nan, np.float32)
        args = (a, b, out, n)
        report = launch(
            source, "grid_stride_add", (blocks,), (threads,), args, what=what, hints=HINTS, outputs=(out,)
        )  # fmt: skip
        with np.errstate(invalid="ignore", over="ignore"):
            want, mistakes = a + b, [(a + a, "a is added to itself"), (b + b, "b is added to itself"), (a - b, "a − b")]
        hint = "number i of out is the sum of number i of a and number i of b"
        compare(out, want, what=f"{what}: out", hint=hint, mistakes=mistakes)
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        loads, stores = report.global_loads, report.global_stores
        asked(
            loads.accesses <= 2 * n and stores.accesses <= n,
            what=f"{what} loads {loads.accesses} numbers and stores {stores.accesses}",
            hint="two loads and one store a number are enough",
            picture=report,
        )
        wasteful = [counts for counts in (loads, stores) if counts.sectors > counts.ideal + counts.requests]
        asked(
            not wasteful,
            what=f"{what} loads {loads.sectors} sectors and stores {stores.sectors},"
            f" {loads.ideal} and {stores.ideal} would do",
            hint="a thread's numbers should not lie side by side: in one round its neighbour has the next number, and"
            " the thread's own next one comes a whole grid later",
            picture=report,
        )
