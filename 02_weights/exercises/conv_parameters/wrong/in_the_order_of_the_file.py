# expect: the initializers come in any order
def conv_parameters(graph):
    """Which weight and which bias each convolution reads: {output: (weight, bias)}, all of them names.

    graph: an onnx GraphProto. Each Conv node stands under the name of the tensor that it writes. Its inputs
    are x, weight and bias, in this order; the bias may be left out or be "", and is None then.
    """
    names = iter([tensor.name for tensor in graph.initializer])
    return {node.output[0]: (next(names), next(names)) for node in graph.node if node.op_type == "Conv"}
