# expect: filters read one channel each
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = hidden * hidden * 9 + 2 * hidden
    total += hidden * out_channels + 2 * out_channels
    if t != 1:
        total += in_channels * hidden + 2 * hidden
    return total
