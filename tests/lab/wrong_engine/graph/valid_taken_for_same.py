# expect: padding is ((2, 2), (1, 1)), expected ((0, 0), (0, 0))
# -- part: window
def window(a, size, kernel):
    """What a convolution or pooling with the attributes `a` does, and its output's size.

    size, kernel: (height, width). Returns ({"stride": (vertical, horizontal), "dilation": …,
    "padding": ((top, bottom), (left, right))}, (output height, output width)).
    """
    stride, dilation = tuple(a.get("strides", (1, 1))), tuple(a.get("dilations", (1, 1)))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    auto = a.get("auto_pad", b"NOTSET")
    padding = ((top, bottom), (left, right))
    if auto != b"NOTSET":
        upper = auto != b"SAME_LOWER"
        padding = tuple(same_padding(size[i], extent[i], stride[i], upper) for i in (0, 1))
    count = tuple((size[i] + sum(padding[i]) - extent[i]) // stride[i] + 1 for i in (0, 1))
    return {"stride": stride, "dilation": dilation, "padding": padding}, count
