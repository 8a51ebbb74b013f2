# expect: with t = 1 the block begins with the depthwise
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = hidden * 9 + 2 * hidden
    total += hidden * out_channels + 2 * out_channels
    if True:
        total += in_channels * hidden + 2 * hidden
    return total
