import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1, 1), (7, 33, 17), (33, 7, 5), (32, 64, 8), (37, 35, 19))  # M, N, K


def fewest_sectors(m, n):
    """Sectors of the stores of 4 × 8 neighbours at a time."""
    count = 0
    for row in range(0, m, 4):
        for col in range(0, n, 8):
            rows, cols = np.arange(row, min(row + 4, m)), np.arange(col, min(col + 8, n))
            count += len(np.unique((rows[:, None] * n + cols) * 4 // 32))
    return count


def check(source):
    random = np.random.default_rng()
    reports = []
    for m, n, k in SIZES:
        what = f"the product of {m} × {k} and {k} × {n}"
        a = random.standard_normal((m, k)).astype(np.float32) + 0.5
        b = random.standard_normal((k, n)).astype(np.float32) + 0.5
        kept, c = (a.copy(), b.copy()), np.full((m, n), np.nan, np.float32)
        hints = {
            "out-of-bounds": "a block covers 32 × 32 of C, which may end before: compare row and column of each of"
            " the 16 elements",
            "race": "each element of C has one thread, and tiles are read between the two barriers only",
            "uninitialised-read": "As is [row][k] and Bs is [k][column]: rows and columns to 31, k to 7",
        }
        blocks = (-(-n // 32), -(-m // 32))
        report = launch(source, "product", blocks, (8, 8), (a, b, c, m, n, k), what=what, hints=hints)
        hint = "C holds NaN before the launch: do the 64 threads × 16 elements cover 32 × 32, and do sums begin at 0?"
        require(not np.isnan(c).any(), what=f"{what} leaves NaN in C", hint=hint)
        want = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
        hint = "sum[i][j] is a row of As times a column of Bs, over all of K; and that row and column it goes to in C"
        expect(c, want, what=f"{what}: C", hint=hint, rtol=1e-5, atol=1e-5 * k**0.5)
        require(np.array_equal(a, kept[0]) and np.array_equal(b, kept[1]),
                what=f"{what} changes its inputs", hint="A and B are to be read only")  # fmt: skip
        steps = blocks[0] * blocks[1] * -(-k // 8) * 8
        reports.append((what, steps * 64 * 8, fewest_sectors(m, n), report))

    for what, loads, stores, report in reports:  # right first, then fast
        got = report.shared_loads.bytes // 4
        hint = "8 numbers make 16 products: take them into registers first, then multiply each with each"
        require(got <= loads, what=f"{what} loads {got} of the tiles, {loads} would do", hint=hint, picture=report)
        got = report.global_stores.sectors
        hint = "lane tx stores next to lane tx + 1 if a thread's 4 columns are 8 apart"
        require(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        counts = report.shared_loads
        hint = "lanes that read different numbers should read neighbours: with columns 8 apart they do"
        said = f"{what}: loads from the tiles take {counts.wavefronts} wavefronts, {counts.ideal} would do"
        require(counts.conflicts == 0, what=said, hint=hint, picture=report)
