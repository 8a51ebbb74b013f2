import numpy as np

from common.check import launch
from common.check.kernels import asked, compare, shapes, sprinkled, use
from common.check.trials import numpy_random

SIZES = ((33, 7), (7, 33), (1, 1), (64, 129), (97, 256))  # N, K; several columns first, to tell mistakes apart


HINTS = {
    "out-of-bounds": "the last block reaches past the last column: some of its lanes have no column, neither of"
    " B nor of y",
    "race": "8 warps meet in sums: one place for each warp and lane, all of them stored before anybody reads"
    " another warp's; and y[n] is written by one warp",
    "race-global": "y[n] is written by one warp, the one that adds up the sums of all",
    "unwritten": "every column is written, those of the last block too",
}


def mistakes(x, B, bias):
    """What comes of some mistakes, by the hint that each deserves."""
    k, n = B.shape
    product, relu = x @ B, np.maximum
    parts = np.stack([x[warp::8] @ B[warp::8] for warp in range(8)])
    yield relu(product, 0), "the bias is missing"
    if k >= 8:
        yield relu(bias, 0), "this is the bias alone: the sum is missing"
    yield product + bias, "the maximum with 0 is missing"
    yield relu(product + 8 * bias, 0), "the bias is added once for the whole sum, not once for each warp"
    yield relu(relu(parts, 0).sum(0) + bias, 0), "max(…, 0) comes after all has been added, bias included"
    yield relu(product, 0) + bias, "max(…, 0) comes after all has been added, bias included"
    yield relu(8 * product + bias, 0), "each warp reads a part of B: the rows are shared out, not repeated"
    yield relu(x @ B.reshape(n, k).T + bias, 0), "row k, column n of B is at k · N + n"
    whole = k // 8 * 8
    yield relu(x[:whole] @ B[:whole] + bias, 0), "each row k falls to one warp, the last ones too, if K % 8 is not 0"
    yield relu(product - parts[0] + bias, 0), "the sum of warp 0 is missing"
    yield relu(product - parts[7] + bias, 0), "the sum of warp 7 is missing"
    yield relu(parts[0] + bias, 0), "this is the sum of warp 0 alone"


def run(source, x, B, bias, what):
    (k, n), y = B.shape, np.full(B.shape[1], np.nan, np.float32)
    args, grid = (x, B, bias, y, n, k), (-(-n // 32),)
    report = launch(source, "row_times_matrix", grid, (256,), args, what=what, hints=HINTS, outputs=(y,))
    wide = [a.astype(np.float64) for a in (x, B, bias)]
    hint = "y[n] is the sum over all K rows k of x[k] · B[k][n], plus bias[n], and 0 if that is below 0"
    with np.errstate(invalid="ignore"):
        want, known = np.maximum(wide[0] @ wide[1] + wide[2], 0), list(mistakes(*wide))
    want[np.isnan(want)] = np.nan if np.isnan(y[np.isnan(want)]).all() else 0  # max of a NaN and 0: either is fine
    compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-6 * k**0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for n, k in shapes(source, random, SIZES, (100, 300)):
        what = f"row_times_matrix of {k} numbers and {k} × {n}"
        x, B, bias = ((random.standard_normal(s)).astype(np.float32) for s in (k, (k, n), n))
        bias += np.sqrt(k).astype(np.float32)  # so that few sums fall below 0, and some do
        reports.append((what, n, k, run(source, x, B, bias, what)))
        if n == 64:
            run(source, x, sprinkled(random, B), bias, f"{what}, NaN and infinities in B")

    for what, n, k, report in reports:  # right first; then fast and in a fixed order
        loads = use(report, 1)
        hint = "each warp reads a part of B, and no element of it is read twice"
        said = f"{what} reads {loads.counts.accesses} elements of B, which has {k * n}"
        asked(loads.counts.accesses <= k * n, what=said, hint=hint, picture=report)
        said = f"{what} loads {loads.counts.sectors} sectors of B, {loads.counts.ideal} would hold its numbers"
        hint = "in one load the lanes of a warp should read neighbouring columns of one row"
        near = loads.counts.sectors <= loads.counts.ideal + loads.counts.requests
        asked(near, what=said, hint=hint, picture=report)
        hint = "the 8 warps share out the K rows"
        said = f"{what}: {loads.warps} of 8 warps read B"
        asked(loads.warps >= -(-k // -(-k // 8)), what=said, hint=hint, picture=report)
        atomics = sum(line.counts.accesses for line in report.lines if line.kind == "atomic")
        hint = "atomics add in another order each time, and so round in another way: give each warp a place of its own"
        said = f"{what}: {atomics} atomic additions, so the bits of y may change from launch to launch"
        asked(atomics == 0, what=said, hint=hint, picture=report)
