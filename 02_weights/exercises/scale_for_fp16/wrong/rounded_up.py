# expect: one power of two too many
def scale_for_fp16(values):
    """The largest power of two with which values can be multiplied so that none exceeds 65504, fp16's limit.

    values: float32, any shape, at least one of them not 0. The power is a float and may be below 1.
    """
    largest = float(abs(values).max())
    scale = 1.0
    while largest * scale <= 65504:
        scale *= 2
    while largest * scale > 65504 * 2:
        scale /= 2
    return scale
