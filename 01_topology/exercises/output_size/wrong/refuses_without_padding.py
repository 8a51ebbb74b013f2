# expect: ValueError
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    if dilation * (kernel - 1) + 1 > size:
        raise ValueError("the window does not fit")
    return (size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1
