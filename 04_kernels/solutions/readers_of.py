def readers_of(pixel, outputs, kernel, stride, pad, dilation):
    """Which outputs of a one-dimensional convolution read this pixel, and with which tap.

    Output o of range(outputs) reads with its tap k of range(kernel) the pixel o * stride - pad
    + k * dilation. A list of pairs (o, k), sorted by k.
    """
    # BEGIN SOLUTION
    # write: the outputs and the taps that read this pixel
    found = []
    for k in range(kernel):
        o, rest = divmod(pixel + pad - k * dilation, stride)
        if rest == 0 and 0 <= o < outputs:
            found.append((o, k))
    return found
    # END SOLUTION
