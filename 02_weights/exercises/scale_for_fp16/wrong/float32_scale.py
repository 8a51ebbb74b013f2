# expect: far larger powers of two than float32
import numpy as np


def scale_for_fp16(values):
    largest = float(np.abs(values).max())
    scale = np.float32(2.0**-120)
    while scale < np.float32(2.0**127) and largest * float(scale) * 2 <= 65504:
        scale *= np.float32(2)
    return float(scale)
