# expect: not with any
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    return -(-size // stride)
