# expect: split into two halves
def same_padding(size, kernel, stride, upper=True):
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    return (0, total) if upper else (total, 0)
