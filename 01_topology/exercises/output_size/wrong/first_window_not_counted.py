# expect: the first window counts as well
def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    window = dilation * (kernel - 1) + 1
    return (size + sum(padding) - window) // stride
