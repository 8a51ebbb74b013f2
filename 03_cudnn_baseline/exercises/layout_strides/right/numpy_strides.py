import itertools


def layout_strides(shape, layout):
    sizes = dict(zip("NCHW", shape, strict=True))
    backwards = layout[::-1]
    products = itertools.accumulate((sizes[index] for index in backwards[:-1]), lambda a, b: a * b, initial=1)
    strides = dict(zip(backwards, products, strict=True))
    return tuple(strides[index] for index in "NCHW")
