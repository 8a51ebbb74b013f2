# expect: SAME_LOWER puts the larger half before
def same_padding(size, kernel, stride, upper=True):
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
