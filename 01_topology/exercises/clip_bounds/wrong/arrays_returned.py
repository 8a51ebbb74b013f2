# expect: a float is expected
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    names = [*node.input, "", ""]
    if names[1]:
        lower = constants[names[1]]
    if names[2]:
        upper = constants[names[2]]
    return lower, upper
