import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1, 1), (7, 33, 17), (33, 7, 5), (64, 9, 31), (131, 5, 13))  # M, N, K


def fewest_sectors(m, n, k):
    """Sectors of loads and of stores when a warp's lanes take the next 32 elements of C as they lie in memory."""

    def sectors(places):  # of each warp's request, places in floats
        return sum(len(set(np.array(part) * 4 // 32)) for part in places)

    warps = [np.arange(first, min(first + 32, m * n)) for first in range(0, m * n, 32)]
    loads = sum(
        sectors(step * m + warp % m for warp in warps) + sectors(warp // m * k + step for warp in warps)
        for step in range(k)
    )
    return loads, sectors(warps)


def check(source):
    random = np.random.default_rng()
    reports = []
    for m, n, k in SIZES:
        what = f"the product of {m} × {k} and {k} × {n}"
        a = np.asfortranarray(random.standard_normal((m, k)).astype(np.float32) + 0.5)
        b = np.asfortranarray(random.standard_normal((k, n)).astype(np.float32) + 0.5)
        c = np.full(m * n, np.nan, np.float32)
        flat_a, flat_b = a.ravel("F"), b.ravel("F")
        kept = flat_a.copy(), flat_b.copy()
        hints = {
            "out-of-bounds": "the last block has threads to spare; and which of M, N and K is each index counted by?",
            "race": "each element of C has one thread, which alone adds up its K products",
        }
        grid = (-(-m * n // 256),)
        report = launch(source, "product", grid, (256,), (flat_a, flat_b, c, m, n, k), what=what, hints=hints)
        hint = "C holds NaN before the launch: is each of its M·N elements written, and not added to?"
        require(not np.isnan(c).any(), what=f"{what} leaves NaN in C", hint=hint)
        want = (a.astype(np.float64) @ b.astype(np.float64)).ravel("F").astype(np.float32)
        hint = "(row, k) of A is at k · M + row, (k, col) of B at col · K + k, C's at col · M + row; all K count"
        expect(c, want, what=f"{what}: C", hint=hint, rtol=1e-5, atol=1e-5 * k**0.5)
        require(np.array_equal(flat_a, kept[0]) and np.array_equal(flat_b, kept[1]),
                what=f"{what} changes its inputs", hint="A and B are to be read only")  # fmt: skip
        reports.append((what, fewest_sectors(m, n, k), report))

    for what, (loads, stores), report in reports:  # right first, then fast
        got = report.global_stores.sectors
        hint = "which index runs fastest in memory, the row's or the column's? It belongs to neighbouring lanes"
        require(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        got = report.global_loads.sectors
        hint = "neighbouring lanes should want neighbours in A and the same element of B, once for each k"
        require(got <= loads, what=f"{what} loads {got} sectors, {loads} would do", hint=hint, picture=report)
