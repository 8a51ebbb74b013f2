# expect: has the shape (1280, 6) (transposed), expected (6, 1280)
# -- part: extract
def extract(model, graph):
    """The arrays of each layer by role: {layer.output: {"weight": array, "bias": array}}.

    model: a path, or an onnx.ModelProto. graph: what graph.read made of it. The weight of a
    Linear is (out_features, in_features), whatever the file holds; a bias is (channels,).
    """
    nodes = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    tensors = {tensor.name: tensor for tensor in nodes.graph.initializer}
    for node in nodes.graph.node:
        if node.op_type == "Constant":
            tensors[node.output[0]] = helper.get_attribute_value(node.attribute[0])
    arrays = {}
    for layer in graph.layers:
        own = {role: to_array(tensors[name]) for role, name in layer.weights.items()}
        if layer.attributes.get("transposed"):
            own["weight"] = own["weight"]
        if "bias" in own:
            own["bias"] = own["bias"].reshape(-1)
        arrays[layer.output] = own
    return arrays
