# expect: a whole number, however large
def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    batch, out_channels, height, width = output_shape
    return int(batch * out_channels * height * width * (in_channels / groups) * kernel_size[0] * kernel_size[1])
