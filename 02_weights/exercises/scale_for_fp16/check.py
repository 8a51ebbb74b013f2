import math

import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def wanted(values, limit=65504.0):
    """From the exponent of the limit over the largest number, exactly."""
    largest = max(abs(float(value)) for value in np.ravel(values).tolist())
    power = math.frexp(limit)[1] - math.frexp(largest)[1] + 1
    while math.ldexp(largest, power) > limit:
        power -= 1
    return math.ldexp(1.0, power)


SLIPS = {
    "65504 over the largest value need not be a power of two": lambda values: 65504 / float(np.abs(values).max()),
    "the limit is 65504, and 65536 is beyond it": lambda values: wanted(values, 65536.0),
    "the absolute value counts: a negative number may be the one that is too large": lambda values: wanted(
        values.max()
    ),
    "values beyond 65504 need a scale below 1": lambda values: max(1.0, wanted(values)),
    "one power of two too many: a product exceeds 65504": lambda values: 2 * wanted(values),
    "the next power of two still fits": lambda values: wanted(values) / 2,
    "the largest value decides, not the mean": lambda values: wanted(np.abs(values.astype(np.float64)).mean()),
    "the largest value decides, not the smallest": lambda values: wanted(np.abs(values[values != 0]).min()),
    "a scale may be far above 65504: only the products have to fit": lambda values: min(wanted(values), 2.0**15),
    "the scale is asked for, not its exponent": lambda values: math.log2(wanted(values)),
    "powers of two alone: they change the exponent, so nothing is rounded": lambda values: (
        10.0 ** math.floor(math.log10(65504 / float(np.abs(values).max())))
    ),
}


def check(scale_for_fp16):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(values, hint):
        values = np.asarray(values, np.float32)
        shown = values.tolist() if values.size < 20 else f"{values.size} numbers, {seed}"
        got = scale_for_fp16(values.copy())
        hint = slips.hint(got, (values,), hint)
        expect(got, wanted(values), what=f"scale_for_fp16({shown})", hint=hint)

    compare([3.0], "the largest power of two for which the product does not exceed 65504: 3 · 2^14 = 49152")
    compare([1.0], "1 · 2^15 = 32768 fits, 2^16 = 65536 does not: the limit is 65504")
    compare([65504.0], "65504 itself still fits: with scale 1 nothing exceeds it")
    compare([np.nextafter(np.float32(2), np.float32(0))], "2^16 would be too large: the limit is 65504")
    compare([-3.0, 0.5], "the absolute value counts: −3 · 2^15 is beyond −65504")
    compare([0.01, -3.0, 0.5], "the largest value decides: it must not overflow")
    compare([1e6], "values beyond 65504 need a scale below 1")
    compare([1e-7, 2e-7], "a scale may be far above 65504: only the products have to fit")
    compare([0.0, -2.5, -0.0], "zeros stay 0 with any scale: the others decide")
    hint = "a Python float holds far larger powers of two than float32: go on until a product would exceed 65504"
    compare([1e-45], hint)
    compare([3e-39, -1e-40], hint)
    hint = "the largest power of two with which no product exceeds 65504; it may be far below 1"
    compare([3.4e38, -1.0], hint)
    compare([65505.0], hint)
    compare([-65504.0 * 2**60], hint)
    hint = "multiply the largest value by the scale: is it at most 65504, and would twice the scale exceed it?"
    for exponent in random.integers(-140, 126, 40).tolist():
        shape = (3, 5) if exponent % 2 else (1000,)
        values = random.uniform(1.0, 1.9999, shape) * 2.0**exponent * random.choice([-1, 1], shape)
        compare(values, hint)
        compare([65504 * 2.0**exponent if exponent < 110 else 65504.0], hint)
