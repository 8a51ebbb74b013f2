def shared_weight(nodes, initializers):
    """The initializers that more than one layer reads: {name: [output, …]}, with the outputs
    of these layers in the order in which they run.

    nodes: (op, inputs, output) each, in the order in which they run; output is the name of the
    tensor that the node writes. An "Identity" is no layer: it gives the tensor that it reads
    a further name. initializers: the names of the arrays in the file. A layer that reads an
    array twice counts once.

    Example: ("Identity", ["b"], "c"), ("Conv", ["x", "w", "b"], "y"),
    ("Conv", ["y", "v", "c"], "z"). Two layers read b, so the result is {"b": ["y", "z"]}.
    """
    # BEGIN SOLUTION
    # write: a dict {name: list of outputs}
    stored = {name: name for name in initializers}  # a name → the name in the file
    readers = {}
    for op, inputs, output in nodes:
        if op == "Identity":
            if inputs[0] in stored:
                stored[output] = stored[inputs[0]]
            continue
        for name in {stored[name] for name in inputs if name in stored}:
            readers.setdefault(name, []).append(output)
    return {name: outputs for name, outputs in readers.items() if len(outputs) > 1}
    # END SOLUTION
