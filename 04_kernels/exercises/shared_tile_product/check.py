import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random

SIZES = ((7, 17, 33), (1, 1, 1), (33, 7, 17), (16, 16, 48), (19, 37, 5))  # M, N, K


def fewest_sectors(rows, k, times):
    """Sectors of `times` blocks that each fetch 16 rows, 16 columns at a time, two rows a request."""
    count = 0
    for first in range(0, rows, 2):
        for k0 in range(0, k, 16):
            width = np.arange(k0, min(k0 + 16, k))
            places = [row * k + width for row in range(first, min(first + 2, rows))]
            count += len(set(np.concatenate(places) * 4 // 32))
    return count * times


HINTS = {
    "out-of-bounds": "tiles reach over the ends of x, W and out, downwards and sideways: compare both indices",
    "race": "a tile is read by threads that did not write it: a __syncthreads belongs between filling it and"
    " reading it, and one between reading it and filling it again",
    "uninitialised-read": "all 16 × 16 places of a tile are read: those beyond the matrix need a zero,"
    " and threads beyond out fetch and wait with the others",
    "unwritten": "every element of out is written, those of the last blocks too",
}


def run(source, x, w, what):
    (m, k), n = x.shape, len(w)
    out = np.full((m, n), np.nan, np.float32)
    grid = (-(-n // 16), -(-m // 16))
    report = launch(source, "linear", grid, (16, 16), (x, w, out, m, n, k), what=what, hints=HINTS, outputs=(out,))
    with np.errstate(invalid="ignore"):
        wide, whole = (x.astype(np.float64), w.astype(np.float64)), (k - 1) // 16 * 16
        known = [
            (wide[0][:, :whole] @ wide[1][:, :whole].T, "the last slice of K belongs to the sum too"),
            (wide[0] @ w.reshape(k, n), "W is (N, K): the element [col][k] is at col · K + k"),
        ]
        want = wide[0] @ wide[1].T
    hint = "out[row][col] is row `row` of x times row `col` of W, over all of K, the last slice too"
    compare(out, want, what=f"{what}: out", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5 * k**0.5)
    return report, grid


def check(source):
    random = numpy_random()
    reports = []
    for m, n, k in shapes(source, random, SIZES, (60, 60, 60)):
        what = f"linear of {m} × {k} and {n} × {k}"
        x, w = (random.standard_normal(s).astype(np.float32) + 0.5 for s in ((m, k), (n, k)))
        report, blocks = run(source, x, w, what)
        reports.append((what, (m, n, k), blocks, report))
        if m == 33:
            run(source, sprinkled(random, x), w, f"{what}, NaN and infinities in x")

    for what, (m, n, k), (across, down), report in reports:  # right first, then fast
        got, once = report.global_loads.bytes // 4, m * k * across + n * k * down
        hint = "the block fetches an element once, and its 16 products are made out of shared memory"
        asked(got <= once, what=f"{what} loads {got} numbers, {once} would do", hint=hint, picture=report)
        got, fewest = report.global_loads.sectors, fewest_sectors(m, k, across) + fewest_sectors(n, k, down)
        hint = "x and W both lie along K: tx should count along K in both fetches, whatever is done with the tile later"
        asked(got <= fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        loads = report.shared_loads
        hint = "16 lanes read below each other: which length of a row puts them into 16 different banks?"
        said = f"{what}: loads from the tiles take {loads.wavefronts} wavefronts, {loads.ideal} would do"
        asked(loads.conflicts == 0, what=said, hint=hint, picture=report)
