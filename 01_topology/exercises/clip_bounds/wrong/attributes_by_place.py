# expect: told apart by name, not by place
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    if len(node.attribute) == 2:
        lower, upper = node.attribute[0].f, node.attribute[1].f
    names = [*node.input, "", ""]
    if names[1]:
        lower = float(constants[names[1]])
    if names[2]:
        upper = float(constants[names[2]])
    return lower, upper
