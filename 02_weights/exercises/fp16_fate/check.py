import math

import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded

KINDS = ("normal", "subnormal", "zero", "infinite")
STEP = 2.0**-24  # between subnormal numbers


def fate(value):
    """What one number becomes, from the steps of fp16 rather than by a conversion."""
    size = abs(float(value))
    if size == math.inf:
        return "infinite"
    step = max(STEP, 2.0 ** (math.frexp(size)[1] - 11))
    rounded = round(size / step) * step  # a tie goes to the even one
    return "infinite" if rounded > 65504 else "normal" if rounded >= 2.0**-14 else "subnormal" if rounded else "zero"


def counted(values):
    found = [fate(value) for value in np.ravel(values).tolist()]
    return {kind: found.count(kind) for kind in KINDS}


def by_limits(values, lowest=2.0**-25, least=2.0**-14, most=65504.0, size=np.abs):
    """A count by limits alone: up to `lowest` 0, below `least` subnormal, above `most` infinite."""
    size = size(np.ravel(values).astype(np.float64))
    zero, infinite = size <= lowest, size > most
    subnormal = ~zero & (size < least)
    numbers = [size.size - (zero | infinite | subnormal).sum(), subnormal.sum(), zero.sum(), infinite.sum()]
    return dict(zip(KINDS, map(int, numbers), strict=True))


SLIPS = {
    "count after rounding: near a limit a number may round to the other side of it": by_limits,
    "the sign does not matter: take the absolute value": lambda values: by_limits(values, size=lambda v: v),
    "numbers below 2^-24, the smallest subnormal, need not become 0: from 2^-25 on they round up": lambda values: (
        by_limits(values, lowest=np.nextafter(STEP, 0))
    ),
    "between 0 and 2^-14 = 6.1e-5 fp16 is subnormal; the limit here is float32's": lambda values: by_limits(
        values, least=2.0**-126
    ),
    "0 is neither normal nor subnormal": lambda values: {
        **counted(values),
        "subnormal": counted(values)["subnormal"] + counted(values)["zero"],
        "zero": 0,
    },
}


def check(fp16_fate):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(values, hint, what=None, dtype=np.float32):
        values = np.asarray(values, dtype)
        got = fp16_fate(values.copy())
        what = what or f"fp16_fate({values.tolist()}, {values.dtype})"
        expect(got, counted(values), what=what, hint=slips.hint(got, (values,), hint))

    compare([1.0, 0.5, 2.5], "ordinary numbers are normal: 4 counts, whole numbers, one of which is 0 for no number")
    compare([1.0, -1.0, -7.0], "the sign does not matter: take the absolute value")
    compare([1e-5, -1e-5, 1e-6], "between 0 and 2^-14 = 6.1e-5 fp16 is subnormal")
    compare([0.0, -0.0], "0 is neither normal nor subnormal")
    compare([1e-9, -1e-9], "less than half of the smallest subnormal, 6e-8, becomes 0")
    compare([7e4, -1e9], "beyond 65504 there is infinity, on both sides")
    compare([math.inf, -math.inf, 1.0], "infinite numbers stay infinite")

    compare([65504.0, -65504.0], "65504 is the largest finite number itself")
    compare([65519.0, 65520.0], "count after rounding: 65519 becomes 65504, 65520 becomes infinite")
    hint = "count after rounding: a number just below 2^-14 becomes 2^-14, which is normal"
    compare([2**-14, 2**-14 * (1 - 2**-13)], hint)
    hint = "count after rounding: 2^-25 is halfway between 0 and 2^-24 and becomes 0, a little more does not"
    compare([2**-25, 2**-25 * 1.01, 2**-24], hint)
    hint = "round once, from float64 to fp16: through float32 a number may first become a tie"
    compare([2**-25 * (1 + 2**-40), 65520 * (1 - 2**-40), 2**-14 * (1 - 2**-11 - 2**-45)], hint, dtype=np.float64)
    compare([1e300, -1e-300, 5e-324], "float64 numbers far beyond fp16 become infinite or 0", dtype=np.float64)
    compare([1e-45, -1e-40], "numbers that are subnormal in float32 become 0")

    hint = "count the elements whatever the shape"
    for shape in ((2, 3, 4), (), (0, 3), (1, 5000)):
        for dtype in (np.float32, np.float64):
            values = random.standard_normal(shape) * 10.0 ** random.uniform(-10, 7, shape)
            what = f"fp16_fate of numbers of shape {shape}, {np.dtype(dtype)} ({seed})"
            compare(values, hint, what, dtype)
    near = np.array([65504.0, 65520.0, 2**-14, 2**-24, 2**-25])[:, None] * (1 + random.integers(-9, 9, 40) * 2.0**-14)
    compare(near, "count after rounding", f"fp16_fate of numbers near the limits ({seed})", np.float64)
