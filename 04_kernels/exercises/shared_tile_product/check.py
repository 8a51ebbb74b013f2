import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1, 1), (7, 17, 33), (33, 7, 17), (16, 16, 48), (19, 37, 5))  # M, N, K


def fewest_sectors(rows, k, times):
    """Sectors of `times` blocks that each fetch 16 rows, 16 columns at a time, two rows a request."""
    count = 0
    for first in range(0, rows, 2):
        for k0 in range(0, k, 16):
            width = np.arange(k0, min(k0 + 16, k))
            places = [row * k + width for row in range(first, min(first + 2, rows))]
            count += len(set(np.concatenate(places) * 4 // 32))
    return count * times


def check(source):
    random = np.random.default_rng()
    reports = []
    for m, n, k in SIZES:
        what = f"linear of {m} × {k} and {n} × {k}"
        x = random.standard_normal((m, k)).astype(np.float32) + 0.5
        w = random.standard_normal((n, k)).astype(np.float32) + 0.5
        kept, out = (x.copy(), w.copy()), np.full((m, n), np.nan, np.float32)
        hints = {
            "out-of-bounds": "tiles reach over the ends of x, W and out, downwards and sideways: compare both indices",
            "race": "a tile is read by threads that did not write it: a __syncthreads belongs between filling it and"
            " reading it, and one between reading it and filling it again",
            "uninitialised-read": "all 16 × 16 places of a tile are read: those beyond the matrix need a zero,"
            " and threads beyond out fetch and wait with the others",
        }
        blocks = (-(-n // 16), -(-m // 16))
        report = launch(source, "linear", blocks, (16, 16), (x, w, out, m, n, k), what=what, hints=hints)
        hint = "out holds NaN before the launch: are those of the last blocks written too, and not added to?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        want = (x.astype(np.float64) @ w.T.astype(np.float64)).astype(np.float32)
        hint = "out[row][col] is row `row` of x times row `col` of W, over all of K, the last slice too"
        expect(out, want, what=f"{what}: out", hint=hint, rtol=1e-5, atol=1e-5 * k**0.5)
        require(np.array_equal(x, kept[0]) and np.array_equal(w, kept[1]),
                what=f"{what} changes its inputs", hint="x and W are to be read only")  # fmt: skip
        reports.append((what, (m, n, k), blocks, report))

    for what, (m, n, k), (across, down), report in reports:  # right first, then fast
        got, once = report.global_loads.accesses, m * k * across + n * k * down
        hint = "the block fetches an element once, and its 16 products are made out of shared memory"
        require(got <= once, what=f"{what} loads {got} numbers, {once} would do", hint=hint, picture=report)
        got, fewest = report.global_loads.sectors, fewest_sectors(m, k, across) + fewest_sectors(n, k, down)
        hint = "x and W both lie along K: tx should count along K in both fetches, whatever is done with the tile later"
        require(got <= fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        loads = report.shared_loads
        hint = "16 lanes read below each other: which length of a row puts them into 16 different banks?"
        said = f"{what}: loads from the tiles take {loads.wavefronts} wavefronts, {loads.ideal} would do"
        require(loads.conflicts == 0, what=said, hint=hint, picture=report)
