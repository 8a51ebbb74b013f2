from math import prod


def step_bytes(x_shape, weight_shape, stride, padding, residual, itemsize):
    """Bytes that one fused step must move: a convolution with bias, residual addition and
    activation.

    x_shape: (N, C, H, W). weight_shape: (O, C / groups, kH, kW). stride, padding: whole
    numbers, the same in both directions. There is always a bias. residual: whether another
    tensor is added to the result before the activation. itemsize: bytes a number. Every array
    that the step reads or writes is moved once.
    """
    # BEGIN SOLUTION
    # write: the bytes of one fused step
    n, _, h, w = x_shape
    o, _, kh, kw = weight_shape
    out = (
        n * o * ((h + 2 * padding - kh) // stride + 1) * ((w + 2 * padding - kw) // stride + 1)
    )
    read = prod(x_shape) + prod(weight_shape) + o + (out if residual else 0)
    return itemsize * (read + out)
    # END SOLUTION
