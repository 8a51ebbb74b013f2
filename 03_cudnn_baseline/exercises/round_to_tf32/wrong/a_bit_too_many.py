# expect: 10 bits behind the leading 1, no more
import numpy as np


def round_to_tf32(x):
    """The numbers rounded to TF32: to the nearest that has 10 fraction bits, of two equally near to the even one.

    x: float32, any shape, finite; not changed. The range is that of float32. Gives a new float32 array.
    """
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    return np.ldexp(np.rint(np.ldexp(mantissa, 12)), exponent - 12).astype(np.float32)
