KINDS = {
    "Conv": "Conv2d",
    "Clip": "ReLU6",
    "Add": "ResidualAdd",
    "GlobalAveragePool": "GlobalAveragePool",
    "Gemm": "Linear",
    "MatMul": "Linear",
}


def count_layers(graph):
    """How many layers of each kind an onnx.GraphProto holds, as a dict without zeros: {"Conv2d": 52, …}.

    KINDS says which operators count. An Add counts only where both of its inputs are computed: with a
    constant on either side it is a bias. A constant is an initializer or what a Constant node gives out.
    """
    counts = {}
    ...  # your code
    return counts
