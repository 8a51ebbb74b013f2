# expect: nodes that stand side by side need not belong together
def foldable(nodes, output):
    """The batch-norms that can go into a convolution: a list of pairs (y, z), in the order of the nodes.

    nodes: (op, inputs, output) each, in the order in which they run, say ("Conv", ["x"], "y") and
    ("BatchNorm", ["y"], "z"); weights are left out of the inputs. output: the tensor that the network gives
    back. y is what the convolution writes, z what the batch-norm makes of it.
    """
    found = []
    for i in range(1, len(nodes)):
        if (nodes[i - 1][0], nodes[i][0]) == ("Conv", "BatchNorm"):
            found.append((nodes[i - 1][2], nodes[i][2]))
    return found
