def fold_constants(nodes, constants, outputs, compute):
    """(nodes, constants) of the same network, without the nodes whose results are known ahead.

    nodes: a list of (op, inputs, output) in the order in which they run; inputs: a list of
    names, output: a name. constants: {name: array}. outputs: the names that the caller reads.
    compute(op, arrays) is what a node writes; None if that differs from run to run, as for a
    random number. The result has only those constants that somebody still reads.
    """
    # BEGIN SOLUTION
    # write: the nodes that stay, and the constants still read
    known, left = dict(constants), []
    for op, inputs, output in nodes:
        value = None
        if all(name in known for name in inputs):
            value = compute(op, [known[name] for name in inputs])
        if value is None:
            left.append((op, inputs, output))
        else:
            known[output] = value
    read = {*outputs, *(name for _, inputs, _ in left for name in inputs)}
    return left, {name: array for name, array in known.items() if name in read}
    # END SOLUTION
