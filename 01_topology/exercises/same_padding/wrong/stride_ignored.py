# expect: (0, 1), not (1, 1)
def same_padding(size, kernel, stride, upper=True):
    total = kernel - 1
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
