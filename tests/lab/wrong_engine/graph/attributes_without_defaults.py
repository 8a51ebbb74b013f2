# expect: `stride, dilation = a["strides"], tuple(
# -- part: window
def window(a, size, kernel):
    """What a convolution or pooling with the attributes `a` does, and its output's size.

    size, kernel: (height, width). Returns ({"stride": (vertical, horizontal), "dilation": …,
    "padding": ((top, bottom), (left, right))}, (output height, output width)).
    """
    stride, dilation = a["strides"], tuple(a.get("dilations", (1, 1)))
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    padding, auto = ((top, bottom), (left, right)), a.get("auto_pad", b"NOTSET")
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if auto.startswith(b"SAME"):
        upper = auto == b"SAME_UPPER"
        padding = tuple(same_padding(size[i], extent[i], stride[i], upper) for i in (0, 1))
    count = tuple((size[i] + sum(padding[i]) - extent[i]) // stride[i] + 1 for i in (0, 1))
    return {"stride": stride, "dilation": dilation, "padding": padding}, count
