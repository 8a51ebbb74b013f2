# expect: weights['bias'] is not there
# -- part: read
def read(model):
    """The Graph of an ONNX model: a path, or an onnx.ModelProto. An open batch size is 1."""
    graph = model.graph if isinstance(model, onnx.ModelProto) else onnx.load(model).graph
    known = constants(graph)
    source = next(value for value in graph.input if value.name not in known)
    dims = source.type.tensor_type.shape.dim
    shapes = {source.name: tuple(dim.dim_value or 1 for dim in dims)}
    layers, same = {}, {}  # same: a tensor that no layer writes → the tensor with its numbers
    for node in graph.node:
        inputs = [same.get(name, name) for name in node.input if name and name not in known]
        op = kind(node, known)
        if op in ("", "bias") and inputs:
            same[node.output[0]] = inputs[0]
        if op == "bias":
            bias = next(name for name in node.input if name in known)
            layers[inputs[0]].weights["shift"] = bias
        elif op:
            layer = layers[node.output[0]] = Layer(op, inputs, node.output[0])
            describe(layer, node, shapes, known)
            shapes[layer.output] = layer.shape
    for layer in layers.values():
        cost(layer, shapes, known)
    output = graph.output[0].name
    return Graph(source.name, shapes[source.name], same.get(output, output), [*layers.values()])
