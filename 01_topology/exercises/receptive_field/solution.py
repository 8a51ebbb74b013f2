def receptive_field(layers):
    """From the first to the last input that one output depends on, how many are there? Along one dimension.

    layers: (kernel, stride) of each layer, the one that reads the input first.
    """
    field = 1
    step = 1  # inputs between two neighbouring outputs of the layers so far
    for kernel, stride in layers:
        field += (kernel - 1) * step
        step *= stride
    return field
