# expect: kinds that do not occur stay out
COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    counts = dict.fromkeys(COUNTED.values(), 0)
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    for node in graph.node:
        if node.op_type not in COUNTED or (node.op_type == "Add" and constants & set(node.input)):
            continue
        kind = COUNTED[node.op_type]
        counts[kind] = counts.get(kind, 0) + 1
    return counts
