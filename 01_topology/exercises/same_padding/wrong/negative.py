# expect: padding is never negative
def same_padding(size, kernel, stride, upper=True):
    outputs = -(-size // stride)
    total = (outputs - 1) * stride + kernel - size
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
