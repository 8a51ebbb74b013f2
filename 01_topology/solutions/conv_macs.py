def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    """Multiply-accumulates of a convolution, taps that fall on the padding included, the bias
    not.

    output_shape: (N, out_channels, H, W), kernel_size: (kH, kW). Output channels and input
    channels are split into `groups`; each output reads the inputs of its own group.
    """
    # BEGIN SOLUTION
    # write: the multiply-accumulates of the convolution
    batch, out_channels, height, width = output_shape
    taps = in_channels // groups * kernel_size[0] * kernel_size[1]
    return batch * out_channels * height * width * taps
    # END SOLUTION
