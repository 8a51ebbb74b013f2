# expect: perhaps that of −0
import numpy as np


def round_to_tf32(x):
    bits = np.array(x, np.float32).view(np.uint32)
    out = ((bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return out + np.float32(0)
