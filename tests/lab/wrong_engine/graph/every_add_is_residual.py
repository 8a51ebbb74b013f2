# expect: the sum with a constant is a bias, not a layer
# -- part: kind
KINDS = {
    "Conv": "Conv2d", "BatchNormalization": "BatchNorm2d", "Relu": "ReLU", "Add": "ResidualAdd",
    "MaxPool": "MaxPool2d", "GlobalAveragePool": "GlobalAveragePool", "Concat": "Concat",
    "Gemm": "Linear", "MatMul": "Linear",
}  # fmt: skip
NO_LAYER = ("Constant", "Flatten", "Reshape", "Squeeze", "Identity", "Dropout")


def kind(node, known):
    """The kind of layer that a node is; "" for one of NO_LAYER, "bias" for Add of a constant."""
    op, a = node.op_type, attributes(node)
    clips = {(0, 6): "ReLU6", (0, inf): "ReLU"}
    if op == "Clip" and clip_bounds(node, known) in clips:
        return clips[clip_bounds(node, known)]
    if op == "ReduceMean":
        axes = a["axes"] if "axes" in a else known[node.input[1]]
        if sorted(axis % 4 for axis in axes) == [2, 3]:
            return "GlobalAveragePool"
    if op == "Add" and all(name in known for name in node.input):
        return "bias"
    if op in NO_LAYER:
        return ""
    if op not in KINDS:
        raise ValueError(f"node {node.name!r} ({op}): no layer computes this")
    return KINDS[op]
