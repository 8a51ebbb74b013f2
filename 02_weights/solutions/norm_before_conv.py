import numpy as np


def norm_before_conv(gamma, beta, mean, var, eps, weight, bias):
    """(weight', bias') of the one dense convolution that does what a batch-norm and the
    convolution after it did. The convolution has no padding.

    gamma, beta, mean, var: (in_channels,). weight: (out_channels, in_channels, kH, kW).
    bias: (out_channels,), or None if the convolution has none.
    """
    # BEGIN SOLUTION
    # write: the weight and the bias of the folded convolution
    scale = gamma / np.sqrt(var + eps)
    shift = beta - mean * scale
    own_bias = 0 if bias is None else bias
    added = (weight * shift.reshape(1, -1, 1, 1)).sum(axis=(1, 2, 3))
    return weight * scale.reshape(1, -1, 1, 1), own_bias + added
    # END SOLUTION
