# expect: MatMul, constants as nodes
# -- part: constants
def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def constants(graph):
    """The tensors of known value, by name: initializers, and what Constant nodes write."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            known[node.output[0]] = numpy_helper.to_array(attributes(node)["value"])
    return known
