import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((1, 1, 1), (7, 33, 17), (33, 7, 5), (32, 64, 8), (37, 35, 19))  # M, N, K


def fewest_sectors(m, n):
    """Sectors of the stores of 8 neighbours of a row at a time."""
    starts = [row * n + col for row in range(m) for col in range(0, n, 8)]
    ends = [row * n + min(col + 8, n) - 1 for row in range(m) for col in range(0, n, 8)]
    return sum(end // 8 - start // 8 + 1 for start, end in zip(starts, ends, strict=True))


HINTS = {
    "out-of-bounds": "a block covers 32 × 32 of C, which may end before: compare row and column of each of"
    " the 16 elements",
    "race": "each element of C has one thread, and tiles are read between the two barriers only",
    "uninitialised-read": "As is [row][k] and Bs is [k][column]: rows and columns to 31, k to 7",
    "shared-bounds": "As is [row][k] and Bs is [k][column]: rows and columns to 31, k to 7",
    "unwritten": "the 64 threads × 16 elements cover 32 × 32 of C",
}


def run(source, a, b, what):
    (m, k), n = a.shape, b.shape[1]
    c = np.full((m, n), np.nan, np.float32)
    blocks = (-(-n // 32), -(-m // 32))
    report = launch(source, "product", blocks, (8, 8), (a, b, c, m, n, k), what=what, hints=HINTS, outputs=(c,))
    with np.errstate(invalid="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
        want, whole = wide[0] @ wide[1], np.arange(k)
        known = [
            (wide[0][:, whole % 8 != 7] @ wide[1][whole % 8 != 7], "each slice has 8 values of k, 0 to 7"),
            (wide[0][:, :-8] @ wide[1][:-8], "all slices of K belong to the sum, the last one too"),
            (wide[0][:, -(k % 8 or 8) :] @ wide[1][-(k % 8 or 8) :], "the sums go on from slice to slice of K"),
        ]
    hint = "sum[i][j] is a row of As times a column of Bs, over all of K; and that row and column it goes to in C"
    compare(c, want, what=f"{what}: C", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5 * k**0.5)
    return report, -(-n // 32) * -(-m // 32) * -(-k // 8) * 8


def check(source):
    random = numpy_random()
    reports = []
    for m, n, k in shapes(source, random, SIZES, (60, 60, 60)):
        what = f"the product of {m} × {k} and {k} × {n}"
        a, b = (random.standard_normal(s).astype(np.float32) + 0.5 for s in ((m, k), (k, n)))
        report, steps = run(source, a, b, what)
        reports.append((what, steps * 64 * 8, fewest_sectors(m, n), report))
        if m == 37:
            run(source, sprinkled(random, a), b, f"{what}, NaN and infinities in A")

    for what, loads, stores, report in reports:  # right first, then fast
        got = report.shared_loads.bytes // 4
        hint = "8 numbers make 16 products: take them into registers first, then multiply each with each"
        asked(got <= loads, what=f"{what} loads {got} of the tiles, {loads} would do", hint=hint, picture=report)
        got = report.global_stores.sectors
        hint = "lane tx stores next to lane tx + 1 if a thread's 4 columns are 8 apart"
        asked(got <= stores, what=f"{what} stores {got} sectors, {stores} would do", hint=hint, picture=report)
        counts = report.shared_loads
        hint = "lanes that read different numbers should read neighbours: with columns 8 apart they do"
        said = f"{what}: loads from the tiles take {counts.wavefronts} wavefronts, {counts.ideal} would do"
        asked(counts.conflicts == 0, what=said, hint=hint, picture=report)
