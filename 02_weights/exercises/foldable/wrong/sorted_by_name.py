# expect: not that of names
def foldable(nodes, output):
    convolved = {written for op, _, written in nodes if op == "Conv"}
    readers = [tensor for _, inputs, _ in nodes for tensor in inputs] + [output]
    return sorted(
        (inputs[0], written)
        for op, inputs, written in nodes
        if op == "BatchNorm" and inputs[0] in convolved and readers.count(inputs[0]) == 1
    )
