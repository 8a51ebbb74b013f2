# expect: shape is (1, 12, 9, 11), expected (1, 12, 7, 11)
# -- part: window
def window(a, size, kernel):
    """What a convolution or pooling with the attributes `a` does, and its output's size.

    size, kernel: (height, width). Returns ({"stride": (vertical, horizontal), "dilation": …,
    "padding": ((top, bottom), (left, right))}, (output height, output width)).
    """
    stride, dilation = tuple(a.get("strides", (1, 1))), tuple(a.get("dilations", (1, 1)))
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    padding, auto = ((top, bottom), (left, right)), a.get("auto_pad", b"NOTSET")
    extent = [k for k in kernel]
    if auto.startswith(b"SAME"):
        upper = auto == b"SAME_UPPER"
        padding = tuple(same_padding(size[i], extent[i], stride[i], upper) for i in (0, 1))
    count = tuple((size[i] + sum(padding[i]) - extent[i]) // stride[i] + 1 for i in (0, 1))
    return {"stride": stride, "dilation": dilation, "padding": padding}, count
