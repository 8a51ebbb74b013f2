def make_divisible(channels, divisor=8):
    """The multiple of divisor that the rule gives for a number of channels."""
    # BEGIN SOLUTION
    # write: the nearest multiple, or the next larger one
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    if rounded < 0.9 * channels:
        rounded += divisor
    return rounded
    # END SOLUTION
