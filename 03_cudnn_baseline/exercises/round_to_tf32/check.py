import numpy as np

from common.check import expect, require
from common.check.trials import Slips, seeded


def rounded(x, to_integer=np.rint, bits=11):
    _, exponent = np.frexp(x.astype(np.float64))  # 0.5 · 2^exponent ≤ |x| < 2^exponent
    exponent = np.maximum(exponent, -125)  # subnormal numbers are multiples of 2^-136
    steps = to_integer(np.ldexp(x.astype(np.float64), bits - exponent))
    return np.ldexp(steps, exponent - bits).astype(np.float32)


TIES = (lambda v: np.copysign(np.floor(abs(v) + 0.5), v), lambda v: np.copysign(np.ceil(abs(v) - 0.5), v))
SLIPS = {
    "round to the nearest, do not cut off": lambda x: rounded(x, np.trunc),
    "round to the nearest, not always away from 0": lambda x: rounded(x, lambda v: np.copysign(np.ceil(abs(v)), v)),
    "10 bits behind the leading 1, which does not count: this is one bit less": lambda x: rounded(x, bits=10),
    "10 bits behind the leading 1: this is one bit more": lambda x: rounded(x, bits=12),
    "10 bits behind the leading 1; 7 are bfloat16's": lambda x: rounded(x, bits=8),
    "TF32 has the exponents of float32: only the fraction is as short as fp16's": lambda x: x.astype(np.float16),
    "the sign is a bit of its own, and stays": lambda x: abs(rounded(x)),
}


def check(round_to_tf32):
    random, seed = seeded()
    slips = Slips(SLIPS)

    def compare(values, hint, what=None):
        x = np.array(values, np.float32)
        want = rounded(x)
        given = x.copy()
        got = round_to_tf32(given)
        unchanged = np.array_equal(given, x)
        require(unchanged, what="round_to_tf32 changes its argument", hint="work on a copy of the bits")
        hint = slips.hint(got, (x,), hint)
        if np.shape(got) == x.shape:
            for to_integer in TIES:  # halfway between two, either is the nearest
                other = rounded(x, to_integer)
                want = np.where(got == other, other, want)
        if hasattr(got, "shape") and np.shape(got) == x.shape and np.isfinite(got).all():
            bits = np.ldexp(np.frexp(np.asarray(got, np.float64))[0], 11)
            normal = np.abs(x) >= np.finfo(np.float32).tiny
            hint = (
                hint if np.array_equal(bits[normal], np.rint(bits[normal])) else "10 bits behind the leading 1, no more"
            )
        expect(got, want, what=what or f"round_to_tf32({x.tolist()})", hint=hint)
        # expect allows nothing here, but looks at values only
        require(got.dtype == np.float32, what=f"the result is {got.dtype}", hint="TF32 lies in float32 arrays")
        signs = np.array_equal(np.signbit(got), np.signbit(x))
        require(
            signs, what="a number's sign changes, perhaps that of −0", hint="the sign is a bit of its own, and stays"
        )

    ulp = 2.0**-10  # from 1 to the next number
    compare([1.0, 2.0, 0.5], "powers of two stay")
    compare([-1.0, -2.5], "the sign is a bit of its own, and stays")
    compare([1 + ulp, 1.5 + ulp], "numbers with 10 bits behind the leading 1 stay as they are")
    compare([1 + 0.5 * ulp + ulp / 8, 1 + ulp / 8], "round to the nearest, do not cut off and do not always go up")
    compare([1.3e-3, 5e-4], "the bits count from each number's leading 1: small numbers keep as many as large ones")
    hint = "halfway between two, one of the two: both have 10 fraction bits"
    compare([1 + 0.5 * ulp, 1 + 1.5 * ulp, 1 + 2.5 * ulp, 1 + 3.5 * ulp], hint)
    compare([1e6, 3e38, 1e-6, 1e-30], "TF32 has the exponents of float32: only the fraction is as short as fp16's")
    compare([2 - ulp / 4], "rounding up may carry into the exponent")
    drawn = random.standard_normal((3, 5, 7)) * 2.0 ** random.integers(-20, 20, (3, 5, 7))
    compare(drawn, "every element, whatever the shape", f"round_to_tf32 of 105 drawn numbers, {seed}")
    compare(
        [0.0, -0.0, 3e-45, -1e-45, 1e-40], "0 and subnormal numbers are floats as any other: 13 bits go, to the nearest"
    )
    compare(3.0, "any shape, a single number as well")
    compare(np.zeros((0, 4)), "any shape, without elements as well")
    hint = "every float is rounded to the nearest with 10 fraction bits"
    for shape in ((1000,), (7, 1, 30), (2, 3, 4, 5, 6)):
        bits = random.integers(0, 0x7F7FE000, shape).astype(np.uint32) | (random.integers(0, 2, shape) << 31).astype(
            np.uint32
        )
        ties = np.where(random.random(shape) < 0.3, bits & 0xFFFFE000 | 0x1000, bits).astype(np.uint32)
        compare(ties.view(np.float32), hint, f"round_to_tf32 of any floats, {seed}")
