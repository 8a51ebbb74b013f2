import numpy as np


def two_halves(x, bound):
    """(high, low, scale): scale · x = high + low, nearly, for float32 numbers |x| ≤ bound.

    scale: the largest power of two with scale · bound ≤ 2¹⁵, as a float, so that high stays
    finite; bound > 0.
    high: scale · x rounded to float16. low: what high lacks of scale · x, rounded to float16.
    x: an array of any shape. high and low: float16 arrays of the same shape.
    """
    # BEGIN SOLUTION
    # write: scale, high and low
    scale = 2.0 ** np.floor(15 - np.log2(np.float64(bound)))
    scaled = x * np.float32(scale)
    high = scaled.astype(np.float16)
    low = (scaled - high.astype(np.float32)).astype(np.float16)
    return high, low, float(scale)
    # END SOLUTION
