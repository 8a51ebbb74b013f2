# expect: the hidden channels are t times those that come in
def block_parameters(in_channels, out_channels, t):
    hidden = t * out_channels
    total = 9 * hidden + 2 * hidden + hidden * out_channels + 2 * out_channels
    if t != 1:
        total += in_channels * hidden + 2 * hidden
    return total
