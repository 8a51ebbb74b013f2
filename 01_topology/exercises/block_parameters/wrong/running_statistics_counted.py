# expect: they are not learned
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = hidden * 9 + 4 * hidden
    total += hidden * out_channels + 4 * out_channels
    if t != 1:
        total += in_channels * hidden + 4 * hidden
    return total
