# expect: each side counts, once, and the two may differ
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    window = dilation * (kernel - 1) + 1
    room = size + 2 * padding[0] - window
    if room < 0:
        raise ValueError("the window does not fit")
    return room // stride + 1
