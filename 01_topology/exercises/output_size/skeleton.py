def output_size(size, kernel, stride=1, padding=(0, 0), dilation=1):
    """How many outputs a convolution gives along one dimension of `size` inputs.

    padding is (before, after). With dilation d the kernel reads every d-th input.
    ValueError where not even one window fits into the padded input.
    """
    ...  # your code
