# expect: still out_channels of them
def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    batch, out_channels, height, width = output_shape
    taps = kernel_size[0] * kernel_size[1] * (in_channels if groups == 1 else 1)
    return batch * out_channels * height * width * taps
