import numpy as np


def quantize_weights(weight):
    """(codes, scales): a weight (O, C, kH, kW) in int8, symmetric, with a scale per channel O.

    codes: int8 in the shape of the weight, from -127 to 127. scales: floats of shape (O,). A
    channel's scale is its greatest |number| / 127, or 1.0 for a channel of zeros. A code is
    the number over its scale, rounded to the nearest integer, and a half to the even one.
    """
    # BEGIN SOLUTION
    # write: the scales, then the codes
    greatest = np.abs(weight).max(axis=(1, 2, 3)).astype(np.float64)
    scales = np.where(greatest > 0, greatest / 127, 1.0)
    codes = np.rint(weight / scales[:, None, None, None])
    return codes.astype(np.int8), scales
    # END SOLUTION
