def pointwise_nchw(x_shape, out_channels):
    batch, k, height, width = x_shape
    m, n = height * width, out_channels
    sizes = dict(m=m, n=n, k=k, batch=batch)
    leading = dict(lda=m, ldb=k, ldc=m)
    strides = dict(stride_a=m * k, stride_b=0, stride_c=m * n)
    return {**strides, **leading, **sizes}
