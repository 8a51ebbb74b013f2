# expect: do not read a meaning into them
def conv_parameters(graph):
    """Which weight and which bias each convolution reads: {output: (weight, bias)}, all of them names.

    graph: an onnx GraphProto. Each Conv node stands under the name of the tensor that it writes. Its inputs
    are x, weight and bias, in this order; the bias may be left out or be "", and is None then.
    """
    weights = sorted(tensor.name for tensor in graph.initializer if tensor.name.endswith("weight"))
    convs = [node for node in graph.node if node.op_type == "Conv"]
    return {
        node.output[0]: (weight, weight.replace("weight", "bias")) for node, weight in zip(convs, weights, strict=False)
    }
