def foldable(nodes, output):
    pairs = {}
    for op, _, y in nodes:
        users = [(other, z) for other, inputs, z in nodes for name in inputs if name == y]
        if op == "Conv" and y != output and len(users) == 1 and users[0][0] == "BatchNorm":
            pairs[users[0][1]] = y
    return [(pairs[z], z) for _, _, z in nodes if z in pairs]
