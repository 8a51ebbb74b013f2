# expect: do not continue each other's rows
def pointwise_nchw(x_shape, out_channels):
    n, c, h, w = x_shape
    m = n * h * w
    return {
        "m": m, "n": out_channels, "k": c, "lda": m, "ldb": c, "ldc": m,
        "stride_a": 0, "stride_b": 0, "stride_c": 0, "batch": 1,
    }  # fmt: skip
