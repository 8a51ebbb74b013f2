# expect: but for an Add with a constant
COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    counts = {}
    for node in graph.node[:200]:
        if node.op_type in COUNTED and not (node.op_type == "Add" and constants & set(node.input)):
            counts[COUNTED[node.op_type]] = counts.get(COUNTED[node.op_type], 0) + 1
    return counts
