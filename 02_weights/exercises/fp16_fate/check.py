import numpy as np

from common.check import expect


def check(fp16_fate):
    random = np.random.default_rng()

    def compare(values, hint, **want):
        want = {"normal": 0, "subnormal": 0, "zero": 0, "infinite": 0} | want
        values = np.asarray(values, np.float32)
        expect(fp16_fate(values), want, what=f"fp16_fate({values.tolist()})", hint=hint)

    compare([1.0, 0.5, 2.5], "ordinary numbers are normal", normal=3)
    compare([1.0, -1.0, -7.0], "the sign does not matter: take the absolute value", normal=3)
    compare([1e-5, -1e-5, 1e-6], "between 0 and 2^-14 = 6.1e-5 fp16 is subnormal", subnormal=3)
    compare([0.0, -0.0], "0 is neither normal nor subnormal", zero=2)
    compare([1e-9, -1e-9], "less than half of the smallest subnormal, 6e-8, becomes 0", zero=2)
    compare([7e4, -1e9], "beyond 65504 there is infinity, on both sides", infinite=2)

    hint = "65504 is the largest finite number itself"
    compare([65504.0, -65504.0], hint, normal=2)
    hint = "count after rounding: 65519 becomes 65504, 65520 becomes infinite"
    compare([65519.0, 65520.0], hint, normal=1, infinite=1)
    hint = "count after rounding: a number just below 2^-14 becomes 2^-14, which is normal"
    compare([2**-14, 2**-14 * (1 - 2**-13)], hint, normal=2)
    hint = "count after rounding: 2^-25 is halfway between 0 and 2^-24 and becomes 0, a little more does not"
    compare([2**-25, 2**-25 * 1.01, 2**-24], hint, zero=1, subnormal=2)

    grid = np.array([3.0, -2e-5, 0.0, 1e6, 1e-12, -5e4], np.float32)
    values = random.permutation(np.repeat(grid, 4)).reshape(2, 3, 4)
    want = {"normal": 8, "subnormal": 4, "zero": 8, "infinite": 4}
    what = "fp16_fate of 24 numbers of shape (2, 3, 4)"
    expect(fp16_fate(values), want, what=what, hint="count the elements whatever the shape")
