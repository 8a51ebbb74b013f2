import numpy as np

from common.check import expect, require


def check(round_to_tf32):
    random = np.random.default_rng()

    def compare(values, hint, what=None):
        x = np.array(values, np.float32)
        mantissa, exponent = np.frexp(x.astype(np.float64))  # x = mantissa · 2^exponent, 0.5 ≤ mantissa < 1
        want = np.ldexp(np.rint(np.ldexp(mantissa, 11)), exponent - 11).astype(np.float32)
        given = x.copy()
        got = round_to_tf32(given)
        unchanged = np.array_equal(given, x)
        require(unchanged, what="round_to_tf32 changes its argument", hint="work on a copy of the bits")
        if hasattr(got, "shape") and np.isfinite(got).all():
            bits = np.ldexp(np.frexp(np.asarray(got, np.float64))[0], 11)
            hint = hint if np.array_equal(bits, np.rint(bits)) else "10 bits behind the leading 1, no more"
        expect(got, want, what=what or f"round_to_tf32({[float(v) for v in x]})", hint=hint)
        # expect allows nothing here, but looks at values only
        require(got.dtype == np.float32, what=f"the result is {got.dtype}", hint="TF32 lies in float32 arrays")

    ulp = 2.0**-10  # from 1 to the next number
    compare([1.0, 2.0, 0.5], "powers of two stay")
    compare([-1.0, -2.5], "the sign is a bit of its own, and stays")
    compare([1 + ulp, 1.5 + ulp], "numbers with 10 bits behind the leading 1 stay as they are")
    compare([1 + 0.5 * ulp + ulp / 8, 1 + ulp / 8], "round to the nearest, do not cut off and do not always go up")
    compare([1.3e-3, 5e-4], "the bits count from each number's leading 1: small numbers keep as many as large ones")
    hint = "halfway between two, the one whose last bit is 0: sometimes up, sometimes down"
    compare([1 + 0.5 * ulp, 1 + 1.5 * ulp, 1 + 2.5 * ulp, 1 + 3.5 * ulp], hint)
    compare([1e6, 3e38, 1e-6, 1e-30], "TF32 has the exponents of float32: only the fraction is as short as fp16's")
    compare([2 - ulp / 4], "rounding up may carry into the exponent")
    drawn = random.standard_normal((3, 5, 7)) * 2.0 ** random.integers(-20, 20, (3, 5, 7))
    compare(drawn, "every element, whatever the shape", "round_to_tf32 of 105 drawn numbers")
