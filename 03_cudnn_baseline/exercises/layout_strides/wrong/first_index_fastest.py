# expect: the last index of NCHW is the fastest
def layout_strides(shape, layout):
    """The strides of a dense array, in elements, a tuple in the order of its logical shape.

    shape: (N, C, H, W), whatever the layout. layout: "NCHW" or "NHWC", the order of the elements in memory.
    """
    n, c, h, w = shape
    if layout == "NHWC":
        return h * w * c, 1, w * c, c
    return 1, n, n * c, n * c * h
