# expect: this is the number of weights
def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    return output_shape[1] * in_channels // groups * kernel_size[0] * kernel_size[1]
