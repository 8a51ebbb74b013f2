COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    """How many layers of each kind an onnx.GraphProto holds, as a dict without zeros:
    {"Conv2d": 52, …}.

    COUNTED says which operators count. An Add counts only where both of its inputs are
    computed: with a constant on either side it is a bias. A constant is an initializer or
    what a Constant node gives out.
    """
    counts = {}
    # BEGIN SOLUTION
    # write: a dict from kind to number of layers
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {
        name for node in graph.node if node.op_type == "Constant" for name in node.output
    }
    for node in graph.node:
        is_bias = node.op_type == "Add" and not constants.isdisjoint(node.input)
        if node.op_type in COUNTED and not is_bias:
            kind = COUNTED[node.op_type]
            counts[kind] = counts.get(kind, 0) + 1
    # END SOLUTION
    return counts
