def branch_layers(layers):
    """{the output of each ResidualAdd: a list of the outputs of the layers on its branches}.

    layers: as graph.walk gives them, each with `op`, `inputs` and `output`; a layer stands
    after those that it reads. A ResidualAdd has two inputs. A layer is on a branch if exactly
    one of the two depends on it. A tensor depends on the layer that writes it, and on all
    that this layer's inputs depend on. The outputs stand in the order of the layers.
    """
    # BEGIN SOLUTION
    # write: the dict
    needs = {}  # tensor → the outputs of all layers that it depends on
    branches = {}
    for layer in layers:
        inputs = [needs.get(name, set()) for name in layer.inputs]
        needs[layer.output] = {layer.output}.union(*inputs)
        if layer.op == "ResidualAdd":
            one_only = inputs[0] ^ inputs[1]
            branches[layer.output] = [name for name in needs if name in one_only]
    return branches
    # END SOLUTION
