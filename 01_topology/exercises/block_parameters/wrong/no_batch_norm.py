# expect: the batch-norms are missing
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = hidden * 9 + 0 * hidden
    total += hidden * out_channels + 0 * out_channels
    if t != 1:
        total += in_channels * hidden + 0 * hidden
    return total
