# expect: do not read a meaning into them
def conv_parameters(graph):
    """Which weight and which bias each convolution reads: {output: (weight, bias)}, all of them names.

    graph: an onnx GraphProto. Each Conv node stands under the name of the tensor that it writes. Its inputs
    are x, weight and bias, in this order; the bias may be left out or be "", and is None then.
    """
    found = {}
    for node in graph.node:
        if node.op_type == "Conv":
            weight = next((name for name in node.input if name.endswith("weight")), None)
            bias = next((name for name in node.input if name.endswith("bias")), None)
            found[node.output[0]] = (weight, bias)
    return found
