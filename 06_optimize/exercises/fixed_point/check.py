import numpy as np

from common.check import expect
from common.check.trials import numpy_random


def wanted(acc, factor, shift):
    found = []
    for one in acc.ravel().tolist():  # integers of Python have no size
        quotient, rest = divmod(one * factor, 1 << shift)
        half = 1 << (shift - 1)
        found.append(quotient + (rest > half or (rest == half and quotient % 2 == 1)))
    return np.array(found, np.int32).reshape(acc.shape)


def check(fixed_point):
    def compare(acc, factor, shift, what, hint):
        acc = np.asarray(acc, np.int32)
        expect(fixed_point(acc.copy(), factor, shift), wanted(acc, factor, shift), what=what, hint=hint)

    hint = "acc and factor have 31 bits each: their product needs int64"
    compare([128, -128, 40_000], 2**30, 36, "sums up to 40,000", hint)
    hint = "a half goes to the even integer: 0.5 and -0.5 to 0, 1.5 to 2, 2.5 to 2"
    compare([1, -1, 3, 5, -3, -5], 2**30, 31, "halves", hint)
    compare([7, -7, 9, -9], 2**30, 33, "quotients 1.125 to 1.75 behind the point", "the nearest integer, not cut off")
    hint = "a float64 has 53 bits, and the product has up to 62: stay with integers"
    compare([2**31 - 1, -(2**31), 2**31 - 3], 2**31 - 1, 31, "the largest sums", hint)
    near = [2**30 + 1, 2**30 + 3, -(2**30) - 1]  # an odd quotient and nearly a half, which float64 makes one
    compare(near, 2**31 - 3, 31, "products next to a half", hint)
    random = numpy_random()
    for shift in (31, 33, 40, 45, 50):
        factor = int(random.integers(2**30, 2**31))
        acc = random.integers(-(2**31), 2**31, (4, 5))
        compare(acc, factor, shift, f"acc (4, 5), factor {factor}, shift {shift}", hint)
