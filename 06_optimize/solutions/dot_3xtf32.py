import numpy as np


def dot_3xtf32(a, b):
    """The dot product of two float32 vectors by three products of TF32 parts, added up in
    float64: a float. All numbers are finite.

    Each number is split in two. high: the number rounded to 10 bits of fraction; that is, half
    of the last of them, 0x1000, is added to the bits of the float, and the 13 bits behind it
    become 0. low: what is lacking, a float32, its last 13 bits set to 0 as well.
    Three of the four products of parts count: not low · low. x.view(np.uint32) are the bits of
    a float32 array, bits.view(np.float32) the floats of bits.
    """
    # BEGIN SOLUTION
    # write: the dot product from three products of TF32 parts

    def cut(bits):
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)

    def split(x):
        high = cut(x.view(np.uint32) + np.uint32(0x1000))
        low = cut((x - high).view(np.uint32))
        return high.astype(np.float64), low.astype(np.float64)

    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return float(np.sum(a_low * b_high + a_high * b_low + a_high * b_high))
    # END SOLUTION
