# expect: not dilation · kernel
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    room = size + sum(padding) - dilation * kernel
    if room < 0:
        raise ValueError("the window does not fit")
    return room // stride + 1
