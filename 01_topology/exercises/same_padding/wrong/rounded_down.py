# expect: rounds up
def same_padding(size, kernel, stride, upper=True):
    outputs = size // stride
    total = max((outputs - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
