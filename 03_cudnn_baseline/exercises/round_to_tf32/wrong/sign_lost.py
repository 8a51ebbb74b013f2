# expect: the sign is a bit of its own
import numpy as np


def round_to_tf32(x):
    """The numbers rounded to TF32: to the nearest that has 10 fraction bits, of two equally near to the even one.

    x: float32, any shape, finite; not changed. The range is that of float32. Gives a new float32 array.
    """
    bits = np.array(x, np.float32).view(np.uint32)
    odd = (bits >> 13) & 1
    return ((bits + 0x0FFF + odd) & np.uint32(0x7FFFE000)).view(np.float32)
