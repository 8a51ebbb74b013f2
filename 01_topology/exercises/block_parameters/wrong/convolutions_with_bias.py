# expect: the convolutions have no bias
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = hidden * 9 + 3 * hidden
    total += hidden * out_channels + 3 * out_channels
    if t != 1:
        total += in_channels * hidden + 3 * hidden
    return total
