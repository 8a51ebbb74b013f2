def basic_block_macs(in_channels, out_channels, size, stride=1, batch=1):
    """Multiply-adds of a block of ResNet-18 on a map of size × size.

    The block has two 3×3 convolutions with padding 1. The first one has the stride. The input
    is added to the result of the second one. If input and result differ in shape, a 1×1
    convolution with the same stride converts the input first. Additions and biases are not
    counted. The size may be odd.
    """
    # BEGIN SOLUTION
    # write: the multiply-adds of the two or three convolutions
    out_size = (size - 1) // stride + 1
    pixels = batch * out_size**2
    first, second = 9 * in_channels * out_channels, 9 * out_channels * out_channels
    shortcut = 0 if stride == 1 and in_channels == out_channels else in_channels * out_channels
    return pixels * (first + second + shortcut)
    # END SOLUTION
