# expect: a whole number is expected
def layout_strides(shape, layout):
    n, c, h, w = shape
    total = n * c * h * w
    if layout == "NHWC":
        return total / n, 1, w * c, c
    return total / n, h * w, w, 1
