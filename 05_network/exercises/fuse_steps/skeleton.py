def fuse_steps(layers, outputs):
    """The steps of a network: a list of steps, each the list of the outputs of the layers that run as one.

    layers: tuples (kind, inputs, output) in the order in which they run. kind is "conv", "add", "act" or any other
    word; inputs is a tuple of names of tensors, two for an "add"; output is the name of the tensor that it writes.
    outputs: the tensors that the caller of the network gets.

    A "conv" may take one "add" along, and after that one "act". What is between two layers of a step is never in
    memory. Every other layer is a step of its own. Steps run in the order of their first layers.

    [("conv", ("x",), "a"), ("act", ("a",), "b"), ("pool", ("b",), "c")], ("c",)   →   [["a", "b"], ["c"]]
    """
    ...  # your code
