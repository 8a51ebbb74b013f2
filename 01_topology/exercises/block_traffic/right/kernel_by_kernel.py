import math


def block_traffic(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    out_size = (size + 2 - 3) // stride + 1
    moved = [(in_channels, size, size), (out_channels, out_size, out_size)]
    if not fused:
        if t > 1:
            moved += [(t * in_channels, size, size)] * 2
        moved += [(t * in_channels, out_size, out_size)] * 2
        if (stride, in_channels) == (1, out_channels):
            moved.append((in_channels, size, size))
    return sum(map(math.prod, moved)) * batch * itemsize
