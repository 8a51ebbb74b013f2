import numpy as np


def depthwise_multiplier(weight, scale, shift, groups):
    """(weight', bias') of the convolution that takes in a batch-norm before it.

    weight: (out_channels, in_channels / groups, kH, kW), without bias and padding.
    scale, shift: (in_channels,): the batch-norm turns each number x of input channel c into
    scale[c] · x + shift[c].
    """
    # BEGIN SOLUTION
    # write: the weight and the bias, for any number of groups
    out_channels, per_group = weight.shape[:2]
    group = np.arange(out_channels) // (out_channels // groups)  # of each output channel
    read = group[:, None] * per_group + np.arange(per_group)  # (out_channels, per_group)
    bias = (weight * shift[read][:, :, None, None]).sum(axis=(1, 2, 3))
    return weight * scale[read][:, :, None, None], bias
    # END SOLUTION
