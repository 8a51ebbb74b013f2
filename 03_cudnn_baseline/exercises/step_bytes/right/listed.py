from math import prod


def step_bytes(x_shape, weight_shape, stride, padding, residual, itemsize):
    extents = [
        1 + (size + 2 * padding - kernel) // stride for size, kernel in zip(x_shape[2:], weight_shape[2:], strict=True)
    ]
    out_shape = (x_shape[0], weight_shape[0], *extents)
    arrays = [x_shape, weight_shape, weight_shape[:1], out_shape] + [out_shape] * bool(residual)
    return sum(prod(shape) for shape in arrays) * itemsize
