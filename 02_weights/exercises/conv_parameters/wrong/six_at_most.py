# expect: for each Conv node
def conv_parameters(graph):
    found = {}
    for node in list(graph.node)[:6]:
        if node.op_type == "Conv":
            inputs = [*node.input, ""]
            found[node.output[0]] = (inputs[1], inputs[2] or None)
    return found
