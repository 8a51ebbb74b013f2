from math import prod


def conv_macs(output_shape, in_channels, kernel_size, groups=1):
    return prod(output_shape) * (in_channels // groups) * prod(kernel_size)
