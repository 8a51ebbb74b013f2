# expect: in the order of the logical shape
def layout_strides(shape, layout):
    """The strides of a dense array, in elements, a tuple in the order of its logical shape.

    shape: (N, C, H, W), whatever the layout. layout: "NCHW" or "NHWC", the order of the elements in memory.
    """
    c, h, w = shape[1:]
    if layout == "NHWC":
        return h * w * c, w * c, c, 1
    return c * h * w, h * w, w, 1
