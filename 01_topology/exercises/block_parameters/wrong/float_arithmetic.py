# expect: add up their numbers
def block_parameters(in_channels, out_channels, t):
    hidden = float(t * in_channels)
    expand = in_channels * hidden + 2 * hidden if t != 1 else 0
    return int(expand + 11 * hidden + hidden * out_channels + 2 * out_channels)
