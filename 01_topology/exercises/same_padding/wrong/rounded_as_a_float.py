# expect: what is beyond the input
import math


def same_padding(size, kernel, stride, upper=True):
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)
