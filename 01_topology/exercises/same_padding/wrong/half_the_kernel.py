# expect: (0, 1), not (1, 1)
def same_padding(size, kernel, stride, upper=True):
    return kernel // 2, kernel // 2
