# expect: only if stride is 1
def block_traffic(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    hidden = t * in_channels
    small = (size - 1) // stride + 1
    source, result = batch * in_channels * size**2, batch * out_channels * small**2
    wide, narrow = batch * hidden * size**2, batch * hidden * small**2
    if fused:
        return (source + result) * itemsize
    total = wide + narrow + narrow + result
    if t != 1:
        total += source + wide
    if in_channels == out_channels:
        total += source
    return total * itemsize
