import numpy as np


def fixed_point(acc, factor, shift):
    """round(acc · factor / 2**shift), a half to the even one: int32, in the shape of acc.

    acc: int32 of any shape. factor: an int, 2**30 to 2**31 - 1. shift: an int, 31 to 50.
    Use integers only: the product has up to 62 bits, and a float64 holds 53 exactly.
    """
    # BEGIN SOLUTION
    # write: the product, the quotient, and the rounding
    product = acc.astype(np.int64) * factor
    low, half = product & ((1 << shift) - 1), 1 << (shift - 1)
    result = product >> shift
    result += (low > half) | ((low == half) & (result & 1 == 1))
    return result.astype(np.int32)
    # END SOLUTION
