def block_traffic(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    """Bytes of activations that a block of MobileNetV2 reads and writes.

    Its input is a map of size × size; the size may be odd.

    fused=False   a kernel each for expand, depthwise and project, with bias and ReLU6 done on
                  the way out. Each reads its input once and writes its output once. Where the
                  block adds its input, the project kernel does so: it reads that tensor as
                  well
    fused=True    one kernel for all of it: the hidden tensors never leave the chip

    Expand is missing if t is 1. The depthwise convolution is 3×3 with padding 1 on each side.
    """
    # BEGIN SOLUTION
    # write: the bytes that the block reads and writes, fused or not
    hidden, out_size = t * in_channels, (size - 1) // stride + 1
    source, result = in_channels * size**2, out_channels * out_size**2
    # before and after the depthwise convolution
    wide, narrow = hidden * size**2, hidden * out_size**2
    if fused:
        elements = source + result
    else:
        elements = (source + wide if t != 1 else 0) + (wide + narrow) + (narrow + result)
        if stride == 1 and in_channels == out_channels:
            elements += source
    return batch * elements * itemsize
    # END SOLUTION
