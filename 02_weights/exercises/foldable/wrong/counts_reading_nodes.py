# expect: which nobody else reads
def foldable(nodes, output):
    ops = {written: op for op, _, written in nodes}
    pairs = []
    for op, inputs, written in nodes[:30]:
        readers = [node for node in nodes if inputs[0] in node[1]]
        if op == "BatchNorm" and "Conv" in ops.get(inputs[0], "") and len(readers) == 1:
            pairs += [(inputs[0], written)] * (inputs[0] != output)
    return pairs
