import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled, target
from common.check.trials import numpy_random

WAVEFRONTS = 12  # per k
HINTS = {
    "out-of-bounds": "C is 64 × 32: rows to 63, columns to 31, whichever lane they belong to",
    "shared-bounds": "As is [k][row] with 64 rows, Bs is [k][column] with 32 columns, k is 0 to 7",
    "misaligned": "a float4 lies at a multiple of 16 bytes: rows and columns that begin a group are multiples of 4",
    "race": "what other lanes stored to As and Bs is loaded between the two __syncwarp; each element of C has one lane",
    "unwritten": "32 lanes × 64 elements cover C: 8 lanes below each other, 4 side by side, two groups in each direction",
}


def run(source, a, b, what):
    c = np.full((64, 32), np.nan, np.float32)
    report = launch(source, "product", (1,), (32,), (a, b, c, len(a)), what=what, hints=HINTS, outputs=(c,))
    with np.errstate(invalid="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
        want, whole = wide[0].T @ wide[1], np.arange(len(a))
        known = [
            (wide[0][whole % 8 != 7].T @ wide[1][whole % 8 != 7], "each slice has 8 values of k, 0 to 7"),
            (wide[0][-8:].T @ wide[1][-8:], "the sums go on from slice to slice of K"),
            (wide[0][:, :32].T.repeat(2, 0) @ wide[1], "a lane's two groups of rows are different ones"),
        ]
    hint = "sums[i][j] is a row of As times a column of Bs, over all of K; and it goes to the same row and column of C"
    compare(c, want, what=f"{what}: C", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5 * len(a) ** 0.5)
    return report


def check(source):
    random = numpy_random()
    reports = []
    for count in (1, 2, *(n for (n,) in shapes(source, random, (), (7,)))):
        k = 8 * count
        a, b = (random.standard_normal((k, n)).astype(np.float32) + 0.5 for n in (64, 32))
        what = f"the product of K = {k}"
        reports.append((what, k, run(source, a, b, what)))
    run(source, sprinkled(random, a), b, f"{what}, NaN and infinities in A")

    for what, k, report in reports:  # right first, then fast
        hint = "neighbouring lanes should load neighbouring groups of 4, or the same one; and each 4 words in one load"
        target(
            report.shared_loads.wavefronts, WAVEFRONTS * k, "wavefronts of loads from shared memory", what=what,
            hint=hint, picture=report,
        )  # fmt: skip
        hint = "lanes side by side should store neighbouring groups of 4 of one row"
        target(report.global_stores.sectors, 64 * 32 // 8, "sectors stored", what=what, hint=hint, picture=report)
