def same_padding(size, kernel, stride, upper=True):
    """The padding (before, after) that auto_pad = SAME_UPPER stands for; SAME_LOWER if not
    `upper`.

    It makes ⌈size / stride⌉ outputs of `size` inputs, with as little padding as that takes.
    Where the sum is odd, UPPER puts the larger half after the input, LOWER before it.
    """
    outputs = -(-size // stride)
    before = after = 0
    while (size + before + after - kernel) // stride + 1 < outputs or size + before + after < kernel:
        if (before + after) % 2 == 0:
            after += upper
            before += not upper
        else:
            before += upper
            after += not upper
    return before, after
