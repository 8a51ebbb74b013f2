def pointwise_nchw(x_shape, out_channels):
    """A 1×1 convolution of NCHW arrays as a batch of matrix products, one per image.

    x_shape: (N, C, H, W); weight: (out_channels, C), row-major; out: (N, out_channels, H, W).
    cuBLAS gets x as its A, weight as its B and out as its C, nothing transposed. Gives a dict
    with "m", "n", "k", "lda", "ldb", "ldc", with the elements from one matrix of a batch to
    the next, "stride_a", "stride_b", "stride_c", and with "batch".
    """
    # BEGIN SOLUTION
    # write: the batch of matrix products
    n, c, h, w = x_shape
    pixels = h * w
    return {
        "m": pixels,
        "n": out_channels,
        "k": c,
        "lda": pixels,
        "ldb": c,
        "ldc": pixels,
        "stride_a": c * pixels,
        "stride_b": 0,
        "stride_c": out_channels * pixels,
        "batch": n,
    }
    # END SOLUTION
