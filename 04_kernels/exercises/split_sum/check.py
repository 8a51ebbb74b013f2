import re

import numpy as np

from common.check import expect, launch, require

SIZES = ((33, 7), (7, 33), (1, 1), (64, 129), (97, 256))  # N, K; several columns first, to tell mistakes apart


def check(source):
    random = np.random.default_rng()
    for n, k in SIZES:
        what = f"row_times_matrix of {k} numbers and {k} × {n}"
        x, B, bias = ((random.standard_normal(s)).astype(np.float32) for s in (k, (k, n), n))
        bias += np.sqrt(k).astype(np.float32)  # so that few sums fall below 0, and some do
        kept, y = [a.copy() for a in (x, B, bias)], np.full(n, np.nan, np.float32)
        hints = {
            "out-of-bounds": "the last block reaches past the last column: some of its lanes have no column, neither of"
            " B nor of y",
            "race": "8 warps meet in sums: one place for each warp and lane, all of them stored before anybody reads"
            " another warp's; and y[n] is written by one warp",
        }
        args = (x, B, bias, y, n, k)
        report = launch(source, "row_times_matrix", (-(-n // 32),), (256,), args, what=what, hints=hints)
        hint = "y holds NaN before the launch: is every column written, and not added to what is there?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        want = np.maximum(x.astype(np.float64) @ B.astype(np.float64) + bias, 0).astype(np.float32)
        expect(y, want, what=f"{what}: y", hint=mistake(y, x, B, bias), rtol=1e-5)
        same = all(np.array_equal(a, b) for a, b in zip((x, B, bias), kept, strict=True))
        require(same, what=f"{what} changes its input", hint="x, B and bias are to be read only")

    # right first; then fast and in a fixed order: report is that of the last size
    loads = [line.counts for line in report.lines if (line.array, line.kind) == ("B", "load")]
    got = sum(counts.accesses for counts in loads)
    hint = "each warp reads a part of B, and no element of it is read twice"
    require(got <= k * n, what=f"{what} reads {got} elements of B, which has {k * n}", hint=hint, picture=report)
    got, fewest = sum(counts.sectors for counts in loads), k * -(-n // 8 + 1)
    hint = "in one load the lanes of a warp should read neighbouring columns of one row"
    require(got <= 2 * fewest, what=f"{what} loads {got} sectors of B", hint=hint, picture=report)
    atomics = re.search(r"\batomic\w+\s*\(", re.sub(r"//.*", "", source))
    hint = "atomics add in another order each time, and so round in another way: give each warp a place of its own"
    require(not atomics, what="the bits of y may change from launch to launch", hint=hint)


def mistake(y, x, B, bias):
    """What was probably done: the hint for a y that is not right."""
    k, n = B.shape
    product = x @ B
    parts = np.stack([x[warp::8] @ B[warp::8] for warp in range(8)])
    cases = [
        (np.maximum(product + 8 * bias, 0), "the bias is added once for the whole sum, not once for each warp"),
        (np.maximum(np.maximum(parts, 0).sum(0) + bias, 0), "max(…, 0) comes after all has been added, bias included"),
        (np.maximum(product, 0) + bias, "max(…, 0) comes after all has been added, bias included"),
        (np.maximum(8 * product + bias, 0), "each warp reads a part of B: the rows are shared out, not repeated"),
        (np.maximum(x @ B.reshape(n, k).T + bias, 0), "row k, column n of B is at k · N + n"),
    ]
    for wrong, hint in cases:
        if np.allclose(y, wrong, rtol=1e-4, atol=1e-4):
            return hint
    return "does each row k fall to one warp, the last ones, too, when K is no multiple of 8?"
