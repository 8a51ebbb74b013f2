import numpy as np


def weights_to_nhwc(weight, groups):
    """The weight of a convolution in the order in which a program on NHWC tensors reads it:
    an array whose memory has this order (C-contiguous), of the same dtype.

    weight: (out_channels, in_channels / groups, kH, kW), in the file's order. It is
    depthwise if the convolution has several input channels and each output channel reads
    only one of them. Then it becomes (kH, kW, out_channels). Every other weight becomes
    (out_channels, kH, kW, in_channels / groups).
    """
    # BEGIN SOLUTION
    # write: the array in the new order, also in memory
    depthwise = groups > 1 and weight.shape[1] == 1
    moved = weight[:, 0].transpose(1, 2, 0) if depthwise else weight.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(moved)
    # END SOLUTION
