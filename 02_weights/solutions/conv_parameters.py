def conv_parameters(graph):
    """Which weight and which bias each convolution reads: {output: (weight, bias)}, all of
    them names.

    graph: an onnx GraphProto. Each Conv node stands under the name of the tensor that it
    writes. Its inputs are x, weight and bias, in this order; the bias may be left out or be
    "", and is None then.
    """
    # BEGIN SOLUTION
    # write: a dict {output: (weight, bias)}
    found = {}
    for node in graph.node:
        if node.op_type == "Conv":
            inputs = [*node.input, ""]
            found[node.output[0]] = (inputs[1], inputs[2] or None)
    return found
    # END SOLUTION
