def same_padding(size, kernel, stride, upper=True):
    total = max(0, kernel - (size % stride or stride))
    halves = [total // 2, (total + 1) // 2]
    return tuple(halves if upper else reversed(halves))
