def layout_strides(shape, layout):
    """The strides of a dense array, in elements, a tuple in the order of its logical shape.

    shape: (N, C, H, W), whatever the layout. layout: "NCHW" or "NHWC", the order of the
    elements in memory.
    """
    # BEGIN SOLUTION
    # write: the strides in the order of the logical shape
    c, h, w = shape[1:]
    if layout == "NHWC":
        return h * w * c, 1, w * c, c
    return c * h * w, h * w, w, 1
    # END SOLUTION
