def layout_strides(shape, layout):
    """The strides of a dense array, in elements, a tuple in the order of its logical shape.

    shape: (N, C, H, W), whatever the layout. layout: "NCHW" or "NHWC", the order of the elements in memory.
    """
    ...  # your code
