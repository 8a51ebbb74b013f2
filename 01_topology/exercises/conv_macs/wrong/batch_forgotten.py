# expect: every picture of the batch
def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    out_channels, height, width = output_shape[1:]
    return out_channels * height * width * in_channels // groups * kernel_size[0] * kernel_size[1]
