def layout_strides(shape, layout):
    """The strides of an array without gaps, in elements: a tuple in the order N, C, H, W.

    shape: the logical shape, (N, C, H, W). layout: "NCHW" or "NHWC", the order of the
    elements in memory.
    """
    # BEGIN SOLUTION
    # write: the strides in the order N, C, H, W
    c, h, w = shape[1:]
    if layout == "NHWC":
        return h * w * c, 1, w * c, c
    return c * h * w, h * w, w, 1
    # END SOLUTION
