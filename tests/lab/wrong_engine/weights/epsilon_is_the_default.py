# expect: branches, not all foldable: fold: the Conv2d that writes 'stem' differs
# -- part: fold
def fold_arrays(conv, norm, eps):
    """The arrays of the folded convolution: computed in float64, rounded once."""
    dtype, bias = conv["weight"].dtype, conv.get("bias")
    exact = {role: array.astype(np.float64) for role, array in norm.items()}
    bias = None if bias is None else bias.astype(np.float64)
    weight, bias = fold_conv_bn(conv["weight"].astype(np.float64), bias, **exact, eps=eps)
    return {"weight": weight.astype(dtype), "bias": bias.astype(dtype)}


def fold(graph, arrays):
    """(graph, arrays) without the batch-norms that a convolution can take in."""
    readers = Counter(name for layer in graph.layers for name in layer.inputs)
    readers[graph.output] += 1
    layers, folded, same = {}, {}, {}  # same: a folded batch-norm's output → the convolution's
    for layer in graph.layers:
        inputs = [same.get(name, name) for name in layer.inputs]
        before = layers.get(inputs[0])
        conv = layer.op == "BatchNorm2d" and before is not None and before.op == "Conv2d"
        if conv and readers[layer.inputs[0]] == 1:
            eps = 1e-5
            folded[inputs[0]] = fold_arrays(folded[inputs[0]], arrays[layer.output], eps)
            same[layer.output] = inputs[0]
        else:
            layers[layer.output] = replace(layer, inputs=inputs)
            folded[layer.output] = arrays[layer.output]
    output = same.get(graph.output, graph.output)
    return replace(graph, layers=[*layers.values()], output=output), folded
