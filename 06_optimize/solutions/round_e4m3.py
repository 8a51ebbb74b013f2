import numpy as np


def round_e4m3(x):
    """x rounded to the nearest number of e4m3, a half to the even fraction; float32.

    From 2^e up to 2^(e+1) the numbers are 2^(e−3) apart, for e from −6 to 8. Below 2⁻⁶ they
    are as far apart as just above it. The largest number is 448, as the last code is NaN;
    what is beyond becomes ±448.
    x: a float32 array of any shape, all finite. np.frexp(x) gives (m, k), x = m · 2^k with
    0.5 ≤ |m| < 1.
    """
    # BEGIN SOLUTION
    # write: the step at each number, and the rounding
    exponent = np.frexp(x)[1] - 1
    step = np.exp2(np.maximum(exponent, -6) - 3.0)
    return np.clip(np.rint(x / step) * step, -448, 448).astype(np.float32)
    # END SOLUTION
