def same_padding(size, kernel, stride, upper=True):
    """The padding (before, after) that auto_pad = SAME_UPPER stands for; SAME_LOWER if not
    `upper`.

    It makes ⌈size / stride⌉ outputs of `size` inputs, with as little padding as that takes.
    Where the sum is odd, UPPER puts the larger half after the input, LOWER before it.
    """
    # BEGIN SOLUTION
    # write: the padding before and after
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
    # END SOLUTION
