# expect: dot_3xtf32
import numpy as np


def dot_3xtf32(a, b):
    def cut(bits):
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)

    def split(x):
        high = cut(x.view(np.uint32) + np.uint32(0x1000))
        return high, cut((x - high).view(np.uint32))

    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return float(np.sum((a_low * b_high + a_high * b_low + a_high * b_high).astype(np.float64)))
