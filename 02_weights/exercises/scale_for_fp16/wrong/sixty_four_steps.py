# expect: go on until a product
import numpy as np


def scale_for_fp16(values):
    largest = float(np.abs(values).max())
    fitting = [2.0**power for power in range(-128, 64) if largest * 2.0**power <= 65504]
    return max(fitting)
