import numpy as np


def round_to_tf32(x):
    """The numbers rounded to TF32: to the nearest that has 10 fraction bits, of two equally
    near to the even one.

    x: float32, any shape, finite; not changed. The range is that of float32. Gives a new
    float32 array.
    """
    # BEGIN SOLUTION
    # write: x rounded to 10 fraction bits, ties to even
    bits = np.array(x, np.float32).view(np.uint32)
    odd = (bits >> 13) & 1  # the last of the bits that stay; 13 go
    return ((bits + 0x0FFF + odd) & np.uint32(0xFFFFE000)).view(np.float32)
    # END SOLUTION
