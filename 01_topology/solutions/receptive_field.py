def receptive_field(layers):
    """How many inputs one output can see along one dimension, from the first to the last.

    layers: (kernel, stride) of each layer, the one that reads the input first.
    """
    field = 1
    # BEGIN SOLUTION
    # write: the loop that updates field
    step = 1  # inputs between two neighbouring outputs of the layers so far
    for kernel, stride in layers:
        field += (kernel - 1) * step
        step *= stride
    # END SOLUTION
    return field
