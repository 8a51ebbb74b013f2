from collections import Counter

COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    constants = [tensor.name for tensor in graph.initializer]
    constants += [node.output[0] for node in graph.node if node.op_type == "Constant"]

    def counts(node):
        return node.op_type in COUNTED and (node.op_type != "Add" or not any(x in constants for x in node.input))

    return Counter(COUNTED[node.op_type] for node in graph.node if counts(node))
