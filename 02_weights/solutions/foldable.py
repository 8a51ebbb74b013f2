def foldable(nodes, output):
    """The batch-norms that can be folded into a convolution: a list of pairs (y, z), in the
    order of the nodes. y is the tensor that the batch-norm reads, z the one that it writes.

    nodes: (op, inputs, output) each, in the order in which they run, for example
    ("Conv2d", ["x"], "y") and ("BatchNorm2d", ["y"], "z"). inputs holds no weights.
    output: the tensor that the network returns.
    """
    # BEGIN SOLUTION
    # write: the list of pairs (y, z)
    convolved = {written for op, _, written in nodes if op == "Conv2d"}
    readers = [tensor for _, inputs, _ in nodes for tensor in inputs] + [output]
    return [
        (inputs[0], written)
        for op, inputs, written in nodes
        if op == "BatchNorm2d" and inputs[0] in convolved and readers.count(inputs[0]) == 1
    ]
    # END SOLUTION
