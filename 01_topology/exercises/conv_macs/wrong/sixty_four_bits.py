# expect: a whole number, however large
import numpy as np


def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    with np.errstate(over="ignore"):
        total = np.prod(np.array([*output_shape, in_channels // groups, *kernel_size], np.int64))
    return int(total)
