def foldable(nodes, output):
    """The batch-norms that can go into a convolution: a list of pairs (y, z), in the order of
    the nodes.

    nodes: (op, inputs, output) each, in the order in which they run, say ("Conv", ["x"], "y")
    and ("BatchNorm", ["y"], "z"); weights are left out of the inputs. output: the tensor that
    the network gives back. y is what the convolution writes, z what the batch-norm makes of
    it.
    """
    # BEGIN SOLUTION
    # write: the list of pairs (y, z)
    convolved = {written for op, _, written in nodes if op == "Conv"}
    readers = [tensor for _, inputs, _ in nodes for tensor in inputs] + [output]
    return [
        (inputs[0], written)
        for op, inputs, written in nodes
        if op == "BatchNorm" and inputs[0] in convolved and readers.count(inputs[0]) == 1
    ]
    # END SOLUTION
