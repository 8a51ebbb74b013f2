import math

import numpy as np


def scale_for_fp16(values):
    mantissa, exponent = math.frexp(float(np.max(np.abs(values))))
    power = 16 - exponent
    return math.ldexp(1.0, power if mantissa * 65536 <= 65504 else power - 1)
