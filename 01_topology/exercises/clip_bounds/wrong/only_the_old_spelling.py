# expect: the names of both bounds are inputs
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    return lower, upper
