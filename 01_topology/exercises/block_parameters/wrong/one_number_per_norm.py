# expect: learns two numbers per channel
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    expand = in_channels * hidden + hidden if t != 1 else 0
    return expand + 10 * hidden + hidden * out_channels + out_channels
