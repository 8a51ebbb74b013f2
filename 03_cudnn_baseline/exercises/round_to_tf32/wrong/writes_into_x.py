# expect: round_to_tf32 gives back a view of its argument `x`
import numpy as np


def round_to_tf32(x):
    """The numbers rounded to TF32: to the nearest that has 10 fraction bits, of two equally near to the even one.

    x: float32, any shape, finite; not changed. The range is that of float32. Gives a new float32 array.
    """
    bits = x.view(np.uint32)
    bits += 0x0FFF + ((bits >> 13) & 1)
    bits &= np.uint32(0xFFFFE000)
    return x
