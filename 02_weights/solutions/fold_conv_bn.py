import numpy as np


def fold_conv_bn(weight, bias, gamma, beta, mean, var, eps):
    """(weight', bias') of the one convolution that does what the convolution and its
    batch-norm did.

    weight: (out_channels, in_channels / groups, kH, kW). bias: (out_channels,), or None if the
    convolution has none. gamma, beta, mean, var: (out_channels,). The arrays that come in are
    not changed.
    """
    # BEGIN SOLUTION
    # write: the weight and the bias of the folded convolution
    scale = gamma / np.sqrt(var + eps)
    own_bias = 0 if bias is None else bias
    return weight * scale.reshape(-1, 1, 1, 1), (own_bias - mean) * scale + beta
    # END SOLUTION
