# expect: KeyError: ''
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    if len(node.input) > 1:
        lower = float(constants[node.input[1]])
    if len(node.input) > 2:
        upper = float(constants[node.input[2]])
    return lower, upper
