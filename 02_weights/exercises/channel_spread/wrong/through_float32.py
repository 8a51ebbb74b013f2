# expect: stay in the weights' own dtype
import numpy as np


def channel_spread(weight):
    ranges = np.abs(weight.astype(np.float32)).reshape(len(weight), -1).max(axis=1)
    ranges = ranges[ranges > 0]
    return float(ranges.max() / ranges.min()) if len(ranges) else 1.0
