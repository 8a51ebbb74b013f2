import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((7, 33, 17), (1, 1, 1), (33, 7, 5), (64, 9, 31), (131, 5, 13))  # M, N, K
HINTS = {
    "out-of-bounds": "the last block has threads without an element; and which of M, N and K is each index counted by?",
    "race-global": "each element of C has one thread, which alone adds up its K products",
    "unwritten": "thread i has an element of C for each i below M · N",
}


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


def mistakes(a, b):
    """What comes of some mistakes, by the hint that each deserves; each C column by column."""
    (m, k), n = a.shape, b.shape[1]
    yield (a @ b).ravel(), "C lies column by column: the element (row, col) is at col · M + row"
    yield (a[:, :-1] @ b[:-1]).ravel("F"), "all K products belong to the sum, the last one too"
    yield (a[:, 1:] @ b[1:]).ravel("F"), "all K products belong to the sum, the first one too"
    by_rows = a.ravel("F").reshape(m, k)
    yield (by_rows @ b).ravel("F"), "A lies column by column: the element (row, k) is at k · M + row"
    yield (a @ b.ravel("F").reshape(k, n)).ravel("F"), "B lies column by column: the element (k, col) is at col · K + k"


def run(source, a, b, what):
    (m, k), n = a.shape, b.shape[1]
    c = np.full(m * n, np.nan, np.float32)
    args = (a.ravel("F"), b.ravel("F"), c, m, n, k)
    report = launch(source, "product", (-(-m * n // 256),), (256,), args, what=what, hints=HINTS, outputs=(c,))
    wide = a.astype(np.float64), b.astype(np.float64)
    hint = "(row, k) of A is at k · M + row, (k, col) of B at col · K + k, C's at col · M + row; all K count"
    with np.errstate(invalid="ignore"):
        want, known = (wide[0] @ wide[1]).ravel("F"), list(mistakes(*wide))
    compare(c, want, what=f"{what}: C", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5 * k**0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for m, n, k in shapes(source, random, SIZES, (60, 60, 60)):
        what = f"the product of {m} × {k} and {k} × {n}"
        a, b = (random.standard_normal(s).astype(np.float32) + 0.5 for s in ((m, k), (k, n)))
        reports.append((what, (m, n, k), run(source, a, b, what)))
    run(source, sprinkled(random, a), b, f"{what}, among them NaN and infinities")

    for what, sizes, report in reports:  # right first, then fast
        loads, stores = fewest_sectors(*sizes)
        got = report.global_stores.sectors
        hint = "which index runs fastest in memory, the row's or the column's? It belongs to neighbouring lanes"
        asked(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        got = report.global_loads.sectors
        hint = "neighbouring lanes should want neighbours in A and the same element of B, once for each k"
        asked(got <= loads, what=f"{what} loads {got} sectors, {loads} would do", hint=hint, picture=report)
