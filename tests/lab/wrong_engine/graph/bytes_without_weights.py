# expect: bytes, expected
# -- part: cost
def cost(layer, shapes, known):
    """Fill in layer.macs and layer.bytes. shapes: of all tensors; known: the constants."""
    sizes = {role: known[name].size for role, name in layer.weights.items()}
    if layer.op in ("Conv2d", "Linear"):
        layer.macs = prod(layer.shape) * (sizes["weight"] // layer.shape[1])
    activations = sum(prod(shapes[name]) for name in [*layer.inputs, layer.output])
    layer.bytes = 4 * (activations)
