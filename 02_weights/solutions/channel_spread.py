def channel_spread(weight):
    """How many times the widest output channel's range is that of the narrowest: a float, at
    least 1.

    weight: (out_channels, in_channels / groups, kH, kW), float32 or float64, finite. The range
    of a channel is the largest absolute value of its weights. Channels whose weights are all 0
    are left out; if no channel is left, the spread is 1.
    """
    # BEGIN SOLUTION
    # write: the ratio of the widest to the narrowest range
    ranges = abs(weight).reshape(len(weight), -1).max(axis=1)
    ranges = ranges[ranges > 0]
    return float(ranges.max() / ranges.min()) if len(ranges) else 1.0
    # END SOLUTION
