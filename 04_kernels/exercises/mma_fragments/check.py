import numpy as np

from common.check import expect, launch, require
from common.check.kernels import asked, calls, in_common, shapes
from common.check.trials import numpy_random

SIZES = ((16, 8, 16), (1, 1, 1), (7, 3, 17), (33, 13, 40))  # M, N, K; the first shows which mistake it is
K16 = np.arange(16)


def half_of_a(A, i):
    """The elements of A in the register a[i]."""
    mask = np.zeros((16, 16))
    mask[i % 2 * 8 :, i // 2 * 8 :][:8, :8] = 1
    return A * mask


def mistakes(A, B):
    """Of one 16×8×16 product: what comes out of fragments that are not right, with the hint that each deserves."""
    k, swapped = K16, K16 ^ 8
    t_of_k = k % 8 // 2 + k % 2 + k // 8 * 8  # what is taken for column k: t and t + 1 in place of 2t and 2t + 1
    d = A @ B
    down = np.block([[A[:8, :8], A[8:, :8]], [A[:8, 8:], A[8:, 8:]]])
    by_rows = d.copy()
    by_rows[:8, 1::2], by_rows[8:, ::2] = d[8:, ::2], d[:8, 1::2]
    along = np.empty((16, 8))  # b[i] holds X[g + 8i][2t], X[g + 8i][2t + 1], taken for X[2t + 8i][g], X[2t + 8i + 1][g]
    for i in range(2):
        along[8 * i : 8 * i + 8] = B[8 * i : 8 * i + 8].T
    return [
        (A @ along, "a lane has one column of B, col0 + g, and the rows 2t, 2t + 1, and 8 on"),
        (down @ B, "a[1] is 8 rows down, a[2] 8 columns on: not the other way round"),
        (A @ B[swapped], "b[0] holds the rows 2t and 2t + 1, b[1] those 8 further down"),
        (A[:, t_of_k] @ B, "a lane's two columns of A are 2t and 2t + 1, so that four lanes take eight"),
        (A @ B[t_of_k], "a lane's two rows of B are 2t and 2t + 1, so that four lanes take eight"),
        (A @ B.reshape(8, 16).T, "B is (K, N): its element (k, n) is at B[k · N + n]"),
        (A[:, K16 ^ 1] @ B, "the element of the lower column comes in the lower half of the register"),
        (A @ B[K16 ^ 1], "the element of the lower row comes in the lower half of the register"),
        (np.vstack([A[:8], A[:8]]) @ B, "a[1] and a[3] belong to row g + 8"),
        (by_rows, "d[0] and d[1] are neighbours in row g, d[2] and d[3] in row g + 8"),
    ]


HINTS = {
    "out-of-bounds": "what lies outside of A and B is 0 without a read, two() sees to that; and lanes whose"
    " part of D lies outside of it have nothing to write",
    "misaligned": "rows of an odd length do not begin at multiples of 4 bytes: two() reads one half at a time",
    "race-global": "each element of D belongs to one lane: row g or g + 8, columns 2t and 2t + 1",
    "deadlock": "mma is done by the 32 lanes together: none may stay away",
    "divergent-barrier": "mma is done by the 32 lanes together: none may stay away",
    "stopped": "mma is done by the 32 lanes together: none may stay away",
    "unwritten": "a lane has four elements of D, d[0] to d[3]: rows g and g + 8, columns 2t and 2t + 1 of each",
}


def check(source):
    random = numpy_random()
    for m, n, k in shapes(source, random, SIZES, (60, 60, 100)):
        what = f"product of {m} × {k} and {k} × {n}"
        A, B = ((random.standard_normal(s) + 0.5).astype(np.float16) for s in ((m, k), (k, n)))
        D = np.full((m, n), np.nan, np.float32)
        grid, args = (-(-n // 8), -(-m // 16)), (A, B, D, m, n, k)
        launch(source, "product", grid, (32,), args, what=what, hints=HINTS, outputs=(D,))
        wide = [x.astype(np.float64) for x in (A, B)]
        want = (wide[0] @ wide[1]).astype(np.float32)
        hint = "outside of A and B every element counts as 0, also where the other factor is not: two() sees to that"
        require(not np.isnan(D).any(), what=f"{what}: D holds NaN, and neither A nor B does", hint=hint)
        hint = "" if np.allclose(D, want, 1e-4, 1e-4) else hint_for(D, *wide)
        seen = in_common(D, want, 1e-5, 1e-5 * k**0.5)
        hint = f"{seen}. {hint}" if seen and (m, n, k) != SIZES[0] else hint
        expect(D, want, what=f"{what}: D", hint=hint, rtol=1e-5, atol=1e-6 * k**0.5)

    asked_for = calls(source, "product", (2, 2), (32,), (*_random_halves(random), 20, 9, 40), MMA)
    made, needed = sum(asked_for.values()) // 32, 2 * 2 * 3
    hint = "mma_f16(d, a, b) multiplies 16×16 by 16×8; in a loop over k of 16 at a time"
    said = f"the product of 20 × 40 and 40 × 9 takes {made} mma_f16 of a warp, where {needed} are needed"
    asked(needed <= made <= 2 * needed, what=said, hint=hint)


MMA = ("mma_f16", "mma_f16_k8")


def _random_halves(random):
    A, B = (random.standard_normal(s).astype(np.float16) for s in ((20, 40), (40, 9)))
    return A, B, np.full((20, 9), np.nan, np.float32)


def hint_for(D, A, B):
    if (A.shape, B.shape) == ((16, 16), (16, 8)):
        for wrong, hint in mistakes(A, B):
            if np.allclose(D, wrong, rtol=1e-3, atol=1e-3):
                return hint
    elif A.shape[1] != 16:
        return "K is 1, 17 or 40, too: the last round has fewer than 16 columns of A, and d goes on from round to round"
    return "the list of who holds what is in ptx.h: draw the 16 columns of A and write the lane into each"
