def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    last = size + padding[0] + padding[1] - (kernel - 1) * dilation - 1
    if last < 0:
        raise ValueError
    return len(range(0, last + 1, stride))
