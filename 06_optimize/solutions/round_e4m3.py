import numpy as np


def round_e4m3(x):
    """x rounded to the nearest number of e4m3, round half to even; float32.

    From 2^e up to 2^(e+1) the spacing is 2^(e−3), for e from −6 to 8. Below 2⁻⁶ it stays
    2⁻⁹. The largest number is 448, as the last code is NaN; what is beyond becomes ±448.
    x: a float32 array of any shape, all finite. np.frexp(x) gives (m, k), x = m · 2^k with
    0.5 ≤ |m| < 1; of 0 it gives (0, 0).
    """
    # BEGIN SOLUTION
    # write: the spacing at each number, and the rounding
    exponent = np.frexp(x)[1] - 1
    spacing = np.exp2(np.maximum(exponent, -6) - 3.0)
    return np.clip(np.rint(x / spacing) * spacing, -448, 448).astype(np.float32)
    # END SOLUTION
