# expect: not kH · kH
def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    batch, out_channels, height, width = output_shape
    return batch * out_channels * height * width * in_channels // groups * kernel_size[0] ** 2
