def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    """How many outputs a convolution gives along one dimension of `size` inputs.

    padding is (before, after). With dilation d the kernel reads every d-th input.
    ValueError where not even one window fits into the padded input.
    """
    before, after = padding
    start, end = -before, size + after
    window = dilation * (kernel - 1) + 1
    count = 0
    while start + window <= end:
        count += 1
        start += stride
    if count == 0:
        raise ValueError("no window fits")
    return count
