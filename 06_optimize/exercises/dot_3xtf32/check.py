import numpy as np

from common.check import expect
from common.check.trials import seeded


def cut(bits):
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def split(x):
    high = cut(x.view(np.uint32) + np.uint32(0x1000))
    return high.astype(np.float64), cut((x - high).view(np.uint32)).astype(np.float64)


def wanted(a, b):
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return float(np.sum(a_low * b_high + a_high * b_low + a_high * b_high))


def check(dot_3xtf32):
    def compare(a, b, hint, what):
        a, b = (np.array(x, np.float32) for x in (a, b))
        want = wanted(a, b)
        expect(dot_3xtf32(a, b), want, what=f"dot_3xtf32({what})", hint=hint, atol=1e-9 * abs(want), nearly=False)

    e = 2.0**-12  # below half of the last bit that high has
    both = np.array([1 + e], np.float32)
    got = dot_3xtf32(both, both)
    if got != 1 + e:  # else one of the two below is not right either, and says more
        hint = "low · low is the one of four that does not count; high · low and low · high do"
        if got == 1:
            hint = "three products, not one: with low parts the result is 1 + 2⁻¹¹"
            hint += "; and what is lacking is a difference of floats, x - high: the last bits of x are no float"
        compare(both, both, hint, "[1 + 2⁻¹²], [1 + 2⁻¹²]")
    compare([1 + e], [1], "the low part of a times the high part of b lacks", "[1 + 2⁻¹²], [1]")
    compare([1], [1 + e], "the high part of a times the low part of b lacks", "[1], [1 + 2⁻¹²]")
    x = 1 + (2**13 - 1) * 2.0**-23
    compare([x], [1], "high is rounded, not cut: half of its last bit is added first", "[1.0009764], [1]")
    compare(
        [-x], [1], "the bits of a float are sign and magnitude: a negative number is rounded alike", "[-1.0009764], [1]"
    )
    compare([1 + e + 2.0**-23], [1], "tensor cores ignore the last 13 bits of low as well", "[1 + 2⁻¹² + 2⁻²³], [1]")
    hint = "half of the last bit that stays, 0x1000, is added to the bits: a number just halfway is rounded away from 0"
    compare([1 + 2.0**-11], [1 + e], hint, "[1 + 2⁻¹¹], [1 + 2⁻¹²]")
    a, b = [2.0**12, 2.0**-12, -(2.0**12)], [2.0**12, 1, 2.0**12]
    compare(a, b, "add up in float64: a float32 sum loses what is small beside 2²⁴", "[2¹², 2⁻¹², -2¹²], [2¹², 1, 2¹²]")
    compare([], [], "a sum of nothing is 0.0", "[], []")
    random, seed = seeded()
    for size, power in ((1, 0), (7, 0), (96, 0), (960, 0), (5000, 3), (33, 18), (33, -18), (50, -42), (50, 36)):
        a, b = (random.standard_normal((2, size)) * 10.0 ** (power * random.random((2, size)))).astype(np.float32)
        if abs(power) > 30:
            b = random.standard_normal(size).astype(np.float32)
        what = f"{size} random numbers, {size} others, {seed}"
        want = wanted(a, b)
        scale = float(np.abs(a) @ np.abs(b))
        hint = "high · high + high · low + low · high, of each pair of numbers, added up in float64"
        expect(dot_3xtf32(a, b), want, what=f"dot_3xtf32({what})", hint=hint, atol=1e-12 * scale, nearly=False)
        got = dot_3xtf32(b, a)
        expect(got, want, what=f"dot_3xtf32({what}, exchanged)", hint=hint, atol=1e-12 * scale, nearly=False)
