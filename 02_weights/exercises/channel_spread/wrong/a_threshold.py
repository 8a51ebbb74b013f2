# expect: only a channel of zeros is left out
import numpy as np


def channel_spread(weight):
    ranges = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    ranges = ranges[(ranges > 1e-12) | (weight.dtype == np.float64) & (ranges > 0)]
    return float(ranges.max() / ranges.min()) if len(ranges) else 1.0
