def scale_for_fp16(values):
    """The largest power of two with which values can be multiplied so that no absolute value
    exceeds 65504, fp16's limit.

    values: float32, finite, any shape, at least one not 0. The power is a Python float:
    it may be below 1, and larger than a float32 can be.
    """
    # BEGIN SOLUTION
    # write: the largest power of two that fits
    largest = float(abs(values).max())
    scale = 1.0
    while largest * scale * 2 <= 65504:
        scale *= 2
    while largest * scale > 65504:
        scale /= 2
    return scale
    # END SOLUTION
