def same_padding(size, kernel, stride, upper=True):
    """The padding (before, after) of SAME_UPPER, or of SAME_LOWER if `upper` is False.

    With this padding, `size` inputs give ⌈size / stride⌉ outputs. No smaller total does. If
    the total is odd, UPPER puts the larger half after the input, LOWER before it.
    """
    # BEGIN SOLUTION
    # write: the padding before and after
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
    # END SOLUTION
