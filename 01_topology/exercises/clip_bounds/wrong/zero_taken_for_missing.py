# expect: 0 is a bound like any other
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    names = [*node.input, "", ""]
    lower = float(constants.get(names[1], 0.0)) or lower
    upper = float(constants.get(names[2], 0.0)) or upper
    return lower, upper
