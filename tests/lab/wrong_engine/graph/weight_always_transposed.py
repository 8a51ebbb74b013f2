# expect: shape is (1, 1280), expected (1, 9)
# -- part: describe
def describe(layer, node, shapes, known):
    """Fill in weights, attributes and shape. shapes: of the tensors so far; known: constants."""
    a, names = attributes(node), [name for name in node.input if name in known]
    n, channels, *size = shapes[layer.inputs[0]]
    layer.shape = shapes[layer.inputs[0]]  # kept by ReLU6, ReLU, ResidualAdd and BatchNorm2d
    if layer.op == "Conv2d":
        out_channels, _, *kernel = known[names[0]].shape
        layer.weights = dict(zip(("weight", "bias"), names, strict=False))
        layer.attributes, size = window(a, size, kernel)
        layer.attributes["groups"] = a.get("group", 1)
        layer.shape = (n, out_channels, *size)
    elif layer.op == "MaxPool2d":
        layer.attributes, size = window(a, size, a["kernel_shape"])
        layer.attributes["kernel_size"] = tuple(a["kernel_shape"])
        layer.shape = (n, channels, *size)
    elif layer.op == "BatchNorm2d":
        layer.weights = dict(zip(("gamma", "beta", "mean", "var"), names, strict=True))
        layer.attributes = {"eps": a.get("epsilon", 1e-5)}
    elif layer.op == "GlobalAveragePool":
        layer.shape = (n, channels, 1, 1)
    elif layer.op == "Concat":
        layer.shape = (n, sum(shapes[name][1] for name in layer.inputs), *size)
    elif layer.op == "Linear":
        layer.weights = dict(zip(("weight", "bias"), names, strict=False))
        layer.attributes = {"transposed": not a.get("transB", 0)}  # (in, out) in the file
        layer.shape = (n, known[names[0]].shape[0])
