import numpy as np

from common.check import expect


def check(scale_for_fp16):
    random = np.random.default_rng()

    def compare(values, want, hint):
        values = np.asarray(values, np.float32)
        shown = values.tolist() if values.size < 5 else f"{values.size} numbers"
        expect(scale_for_fp16(values), want, what=f"scale_for_fp16({shown})", hint=hint)

    hint = "a power of two changes the exponent alone, so nothing is rounded; other factors round"
    compare([3.0], 2.0**14, hint)
    compare([1.0], 2.0**15, "1 · 2^15 = 32768 fits, 2^16 = 65536 does not: the limit is 65504")
    compare([65504.0], 1.0, "65504 itself still fits: with scale 1 nothing exceeds it")
    compare([np.nextafter(np.float32(2), np.float32(0))], 2.0**14, "2^16 would be too large: the limit is 65504")
    compare([-3.0, 0.5], 2.0**14, "the absolute value counts: −3 · 2^15 is beyond −65504")
    compare([0.01, -3.0, 0.5], 2.0**14, "the largest value decides: it must not overflow")
    compare([1e6], 2.0**-4, "values beyond 65504 need a scale below 1")
    compare([1e-7, 2e-7], 2.0**38, "a scale may be far above 65504: only the products have to fit")
    for exponent in random.integers(-20, 20, 12).tolist():
        values = random.uniform(1.1, 1.9, (3, 5)) * 2.0**exponent * random.choice([-1, 1], (3, 5))
        compare(values, 2.0 ** (15 - exponent), "multiply the largest value by the scale: is it below 65504?")
