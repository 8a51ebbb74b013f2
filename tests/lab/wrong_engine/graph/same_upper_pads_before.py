# expect: padding is ((1, 0), (1, 0)), expected ((0, 1), (0, 1))
# -- part: same_padding
def same_padding(size, kernel, stride, upper=True):
    """The padding (before, after) that auto_pad = SAME_UPPER stands for; SAME_LOWER if not
    `upper`.

    It makes ⌈size / stride⌉ outputs of `size` inputs, with as little padding as that takes.
    Where the sum is odd, UPPER puts the larger half after the input, LOWER before it.
    """
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if upper else (small, large)
