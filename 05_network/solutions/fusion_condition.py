def fusion_condition(conv, dtype, layout):
    """True if one of your two kernels can compute a convolution, else the reason why not.

    conv: groups, in_channels, out_channels; kernel_size, stride, dilation: (vertical,
    horizontal); padding: ((top, bottom), (left, right)); bias: a name, or None if it has none.
    dtype: "fp32" or "fp16", layout: "NCHW" or "NHWC", of the network's arrays. The reason is a
    text such as "needs dilation 1".
    """
    # BEGIN SOLUTION
    # write: a reason for each convolution that neither kernel takes
    if (dtype, layout) != ("fp32", "NCHW"):
        return f"needs fp32 in NCHW, got {dtype} in {layout}"
    if conv.groups != 1 and not conv.groups == conv.in_channels == conv.out_channels:
        return f"needs groups 1, or one group per channel, got {conv.groups}"
    if conv.bias is None:
        return "needs a bias"
    if conv.dilation != (1, 1):
        return "needs dilation 1"
    same = conv.kernel_size[0] == conv.kernel_size[1] and conv.stride[0] == conv.stride[1]
    if not same or conv.padding[0][0] != conv.padding[1][0]:
        return "needs one size, one stride and one padding for both directions"
    return True
    # END SOLUTION
