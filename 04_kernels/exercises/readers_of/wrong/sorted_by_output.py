# expect: sorted by the tap k, not by the output
def readers_of(pixel, outputs, kernel, stride, pad, dilation):
    """Which outputs of a one-dimensional convolution read this pixel, and with which tap.

    Output o of range(outputs) reads with its tap k of range(kernel) the pixel o * stride - pad + k * dilation.
    A list of pairs (o, k), sorted by k.
    """
    return [(o, k) for o in range(outputs) for k in range(kernel) if o * stride - pad + k * dilation == pixel]
