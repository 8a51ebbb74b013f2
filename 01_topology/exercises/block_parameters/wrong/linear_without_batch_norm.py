# expect: only not by a ReLU6
def block_parameters(in_channels, out_channels, t):
    hidden = t * in_channels
    total = 9 * hidden + 2 * hidden + hidden * out_channels
    if t != 1:
        total += in_channels * hidden + 2 * hidden
    return total
