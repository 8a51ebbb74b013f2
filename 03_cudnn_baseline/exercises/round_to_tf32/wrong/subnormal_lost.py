# expect: subnormal
import numpy as np


def round_to_tf32(x):
    bits = np.array(x, np.float32).view(np.uint32)
    out = ((bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0) * out, out)
