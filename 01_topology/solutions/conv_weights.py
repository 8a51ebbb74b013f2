def conv_weights(in_channels, out_channels, kernel, groups=1):
    """The number of weights of a convolution with a kernel × kernel window, without bias."""
    # BEGIN SOLUTION
    # write: the number of weights
    return out_channels * (in_channels // groups) * kernel * kernel
    # END SOLUTION
