# expect: for each Conv node
def conv_parameters(graph):
    found = {}
    for node in graph.node:
        if node.op_type.startswith("Conv"):
            inputs = [*node.input, ""]
            found[node.output[0]] = (inputs[1], inputs[2] or None)
    return found
