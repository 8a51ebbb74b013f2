from collections import Counter


def fuse_steps(layers, outputs):
    """The steps of a network: a list of steps, each the list of the outputs of the layers that
    run as one.

    layers: tuples (kind, inputs, output) in the order in which they run. kind is "conv",
    "add", "act" or any other word; inputs is a tuple of names of tensors, two for an "add";
    output is the name of the tensor that it writes. outputs: the tensors that the caller of
    the network gets.

    A "conv" may take one "add" along, and after that one "act". What is between two layers of
    a step is never in memory. Every other layer is a step of its own. Steps run in the order
    of their first layers.

    [("conv", ("x",), "a"), ("act", ("a",), "b"), ("pool", ("b",), "c")], ("c",)   →   [["a",
                                                                                   "b"], ["c"]]
    """
    # BEGIN SOLUTION
    # write: the list of steps
    reads = Counter(name for _, inputs, _ in layers for name in inputs)
    reads.update(outputs)
    steps, kinds, written = [], [], {}  # written: which step writes a tensor
    for kind, inputs, output in layers:
        able = []  # the steps that may take this layer along
        for name in inputs:
            at = written.get(name)
            if at is None or name != steps[at][-1] or reads[name] != 1:
                continue
            if kind == "act" and kinds[at] in (["conv"], ["conv", "add"]):
                able.append(at)
            if kind == "add" and kinds[at] == ["conv"]:
                other = inputs[1] if name == inputs[0] else inputs[0]
                if written.get(other, -1) < at:
                    able.append(at)
        if able:
            step = able[-1]
        else:
            step = len(steps)
            steps.append([])
            kinds.append([])
        steps[step].append(output)
        kinds[step].append(kind)
        written[output] = step
    return steps
    # END SOLUTION
