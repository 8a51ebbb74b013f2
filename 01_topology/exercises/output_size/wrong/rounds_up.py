# expect: the stride rounds down
import math


def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    window = dilation * (kernel - 1) + 1
    room = size + sum(padding) - window
    if room < 0:
        raise ValueError("the window does not fit")
    return math.ceil(room / stride) + 1
