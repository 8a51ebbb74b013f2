# expect: in elements, not in bytes
def layout_strides(shape, layout):
    """The strides of a dense array, in elements, a tuple in the order of its logical shape.

    shape: (N, C, H, W), whatever the layout. layout: "NCHW" or "NHWC", the order of the elements in memory.
    """
    c, h, w = shape[1:]
    if layout == "NHWC":
        return 4 * h * w * c, 4, 4 * w * c, 4 * c
    return 4 * c * h * w, 4 * h * w, 4 * w, 4
