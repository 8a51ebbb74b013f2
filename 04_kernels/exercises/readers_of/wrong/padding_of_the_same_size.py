# expect: the padding is given: it need not be half of the kernel
def readers_of(pixel, outputs, kernel, stride, pad, dilation):
    """Which outputs of a one-dimensional convolution read this pixel, and with which tap.

    Output o of range(outputs) reads with its tap k of range(kernel) the pixel o * stride - pad + k * dilation.
    A list of pairs (o, k), sorted by k.
    """
    found = []
    for k in range(kernel):
        o, rest = divmod(pixel + kernel // 2 * dilation - k * dilation, stride)
        if rest == 0 and 0 <= o < outputs:
            found.append((o, k))
    return found
