# expect: a kernel may be wider than high
from math import prod


def step_bytes(x_shape, weight_shape, stride, padding, residual, itemsize):
    n, _, h, w = x_shape
    o, _, k, _ = weight_shape
    out = n * o * ((h + 2 * padding - k) // stride + 1) * ((w + 2 * padding - k) // stride + 1)
    return itemsize * (prod(x_shape) + prod(weight_shape) + o + out * (2 if residual else 1))
