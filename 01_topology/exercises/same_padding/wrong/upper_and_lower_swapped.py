# expect: SAME_UPPER puts the larger half after
def same_padding(size, kernel, stride, upper=True):
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if upper else (small, large)
