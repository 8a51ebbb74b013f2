import numpy as np


def equalize_pair(w1, b1, w2, greatest):
    """(w1, b1, w2) after equalization of the channels between two layers.

    w1: (O, C), a 1×1 convolution, with bias b1: (O,). Then a ReLU6. Then w2: (O, 3, 3), a
    depthwise convolution. greatest: (O,), the greatest number of each channel after the ReLU6,
    on the calibration pictures; 6 if it reaches the bound.

    s = √(r1 / r2) per channel, with r1 and r2 the greatest |weight| of the channel in w1 and
    in w2, which are not 0; and the two rules for ReLU6.
    """
    r1 = np.abs(w1).max(axis=1)
    r2 = np.abs(w2).max(axis=(1, 2))
    # BEGIN SOLUTION
    # write: s, and the three arrays
    s = np.sqrt(r1 / r2)
    s = np.where(greatest < 6, np.maximum(s, greatest / 6), 1.0)
    return w1 / s[:, None], b1 / s, w2 * s[:, None, None]
    # END SOLUTION
