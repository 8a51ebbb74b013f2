# expect: a whole number
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    room = size + sum(padding) - dilation * (kernel - 1) - 1
    if room < 0:
        raise ValueError("the window does not fit")
    return int(room / stride) + 1
