import numpy as np

from common.check import expect, launch, require

# n, blocks, threads in a block
LAUNCHES = ((1, 1, 32), (7, 2, 32), (33, 1, 32), (1009, 3, 96), (4099, 2, 256), (50, 5, 64))


def check(source):
    random = np.random.default_rng()
    reports = []
    for n, blocks, threads in LAUNCHES:
        what = f"grid_stride_add of {n} numbers with {blocks} × {threads} threads"
        a, b = (random.standard_normal(n).astype(np.float32) + shift for shift in (0.5, 2.0))
        out = np.full(n, np.nan, np.float32)
        hints = {
            "race": "each number belongs to one thread of one block: two of them are apart by how many numbers?",
            "out-of-bounds": "there may be more threads than numbers, and the last round need not be full",
        }
        args = (a, b, out, n)
        report = launch(source, "grid_stride_add", (blocks,), (threads,), args, what=what, hints=hints)
        require(
            not np.isnan(out).any(),
            what=f"{what} leaves NaN in out",
            hint="out holds NaN before the launch: does every number have a thread, also if there are fewer threads?",
        )
        expect(out, a + b, what=f"{what}: out", hint="number i of out is the sum of number i of a and number i of b")
        reports.append((what, n, report))

    for what, n, report in reports:  # right first, then fast
        loads, stores = report.global_loads, report.global_stores
        require(
            loads.accesses <= 2 * n and stores.accesses <= n,
            what=f"{what} loads {loads.accesses} numbers and stores {stores.accesses}",
            hint="two loads and one store a number are enough",
            picture=report,
        )
        fewest = -(-4 * n // 32)
        require(
            loads.sectors <= 2 * fewest and stores.sectors <= fewest,
            what=f"{what} loads {loads.sectors} sectors and stores {stores.sectors},"
            f" {2 * fewest} and {fewest} would do",
            hint="a thread's numbers should not lie side by side: in one round its neighbour has the next number, and"
            " the thread's own next one comes a whole grid later",
            picture=report,
        )
