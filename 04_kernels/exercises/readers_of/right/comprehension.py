def readers_of(pixel, outputs, kernel, stride, pad, dilation):
    positions = ((pixel + pad - k * dilation, k) for k in range(kernel))
    return [(p // stride, k) for p, k in positions if p % stride == 0 and 0 <= p < outputs * stride]
