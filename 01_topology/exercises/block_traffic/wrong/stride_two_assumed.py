# expect: it rounds up
def block_traffic(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    hidden = t * in_channels
    out_size = size if stride == 1 else (size + 1) // 2
    elements = in_channels * size**2 + out_channels * out_size**2
    if not fused:
        if t != 1:
            elements += 2 * hidden * size**2
        elements += 2 * hidden * out_size**2
        if stride == 1 and in_channels == out_channels:
            elements += in_channels * size**2
    return batch * elements * itemsize
