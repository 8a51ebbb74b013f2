import numpy as np

from common.check import expect, launch, require
from common.check.kernels import asked, beyond, calls
from common.check.trials import numpy_random

E = 2.0**-12  # below half of the last bit of a TF32 number of 1
LOW = 2.0**-11 - 2.0**-21  # nearly half of it: LOW · LOW can be seen in a float beside 1
TOGETHER = "mma is done by the 32 lanes together: none may stay away"
DIFFERENCE = (
    "low must be the difference of two floats, x and high, as the bits of a float; __uint_as_float and __float_as_uint"
    " turn bits into a float and back"
)
CUT = "high is rounded, not cut: to_tf32 does it; what is lacking then fits into low"
# what A and B hold, one number each in their first column and row, with the hint that a wrong product deserves
ONE_PRODUCT = (
    (1, 1, f"high · high is the largest of the three products, and counts once; and {DIFFERENCE}"),
    (1 + E, 1, f"the low part of A times the high part of B lacks; and {DIFFERENCE}"),
    (1, 1 + E, f"the high part of A times the low part of B lacks; and {DIFFERENCE}"),
    (1 + LOW, 1 + LOW, "high · low and low · high count, low · low does not"),
    (1 + (2**13 - 1) * 2.0**-23, 1, CUT),
    (1, 1 + (2**13 - 1) * 2.0**-23, CUT),
)


def product(source, a, b, what):
    d = np.full((16, 8), np.nan, np.float32)
    hints = dict.fromkeys(("deadlock", "divergent-barrier", "stopped"), TOGETHER)
    launch(source, "three_tf32", (1,), (32,), (a, b, d, a.shape[1]), what=what, hints=hints, outputs=(d,))
    return d


def one_product(source, x, y, what):
    a, b = np.zeros((16, 8), np.float32), np.zeros((8, 8), np.float32)
    a[:, 0], b[0] = x, y
    return product(source, a, b, what)


def check(source):
    for x, y, hint in ONE_PRODUCT:
        what = f"A of {x:.7g} · B of {y:.7g}"
        d = one_product(source, x, y, what)
        if (x, y) == (1 + E, 1) and abs(one_product(source, 1 + LOW, 1 + LOW, what)[0, 0] - (1 + LOW + LOW**2)) < 1e-7:
            hint = "low · low is too small to matter: it is low · high and high · low that count"
        allowed = 1.6 * LOW**2 if x == y == 1 + LOW else 2.0**-24
        expect(d, np.full((16, 8), np.float32(x * y)), what=f"{what}: D", hint=hint, atol=allowed, nearly=False)
    random = numpy_random()
    for k in (8, 24, 96, 8 * int(random.integers(13, 40)), *(-(-n // 8) * 8 for n in beyond(source, 1100)[-2:])):
        what = f"product of 16 × {k} and {k} × 8"
        a, b = random.standard_normal((16, k)).astype(np.float32), random.standard_normal((k, 8)).astype(np.float32)
        d = product(source, a, b, what)
        hint = "neither A nor B holds a NaN, and to_tf32 makes none: what is x − high, and of which bits?"
        require(not np.isnan(d).any(), what=f"{what}: D holds NaN", hint=hint)
        exact = a.astype(np.float64) @ b
        hint = "K is 24 and 96, too: d goes on from round to round" if k > 8 else "three products of 8 columns and rows"
        scale = float(np.linalg.norm(exact))
        expect(d, exact.astype(np.float32), what=f"{what}: D", hint=hint, rtol=0, atol=1e-6 * scale, nearly=False)
    a, b = np.ones((16, 24), np.float32), np.ones((24, 8), np.float32)
    made = calls(source, "three_tf32", (1,), (32,), (a, b, np.full((16, 8), np.nan, np.float32), 24), ("mma_tf32",))
    made, hint = made["mma_tf32"] // 32, "high · high, high · low and low · high: three mma_tf32 for 8 columns and rows"
    asked(made == 9, what=f"for K = 24 the warp makes {made} mma_tf32, 9 would do", hint=hint)
