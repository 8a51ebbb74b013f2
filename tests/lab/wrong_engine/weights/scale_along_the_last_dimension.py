# expect: weights.py, line
# -- part: fold_conv_bn
def fold_conv_bn(weight, bias, gamma, beta, mean, var, eps):
    """(weight', bias') of the one convolution that does what the convolution and its
    batch-norm did.

    weight: (out_channels, in_channels / groups, kH, kW). bias: (out_channels,), or None if the
    convolution has none. gamma, beta, mean, var: (out_channels,). The arrays that come in are
    not changed.
    """
    scale = gamma / np.sqrt(var + eps)
    own_bias = 0 if bias is None else bias
    return weight * scale, (own_bias - mean) * scale + beta
