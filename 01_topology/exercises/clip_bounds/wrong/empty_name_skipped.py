# expect: those after it keep their places
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    names = [name for name in node.input if name]
    if len(names) > 1:
        lower = float(constants[names[1]])
    if len(names) > 2:
        upper = float(constants[names[2]])
    return lower, upper
