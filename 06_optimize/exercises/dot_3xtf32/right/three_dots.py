import numpy as np


def dot_3xtf32(a, b):
    mask = np.uint32(0xFFFFE000)

    def split(x):
        high = ((x.view(np.uint32) + np.uint32(0x1000)) & mask).view(np.float32)
        low = ((x - high).view(np.uint32) & mask).view(np.float32)
        return high.astype(float), low.astype(float)

    (ah, al), (bh, bl) = split(a), split(b)
    return float(np.dot(ah, bh) + np.dot(al, bh) + np.dot(ah, bl))
