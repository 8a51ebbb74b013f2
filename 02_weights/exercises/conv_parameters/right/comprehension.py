def conv_parameters(graph):
    def bias(node):
        return node.input[2] if len(node.input) == 3 and node.input[2] else None

    convs = [node for node in graph.node if node.op_type == "Conv"]
    return {node.output[0]: (node.input[1], bias(node)) for node in convs}
