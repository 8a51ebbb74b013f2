# expect: every node counts
COUNTED = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    counts = {}
    for node in graph.node:
        if node.op_type in COUNTED:
            counts[COUNTED[node.op_type]] = 1
    return counts
