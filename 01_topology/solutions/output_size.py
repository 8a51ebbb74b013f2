def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    """How many outputs a convolution gives along one dimension of `size` inputs.

    padding is (before, after). With dilation d the kernel reads every d-th input.
    ValueError where not even one window fits into the padded input.
    """
    # BEGIN SOLUTION
    # write: the number of outputs, or ValueError
    window = dilation * (kernel - 1) + 1
    room = size + sum(padding) - window
    if room < 0:
        raise ValueError(f"a window of {window} does not fit into {size + sum(padding)}")
    return room // stride + 1
    # END SOLUTION
