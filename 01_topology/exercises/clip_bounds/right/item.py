import math


def clip_bounds(node, constants):
    found = [-math.inf, math.inf]
    for attribute in node.attribute:
        found[("min", "max").index(attribute.name)] = attribute.f
    for place, name in enumerate(list(node.input)[1:3]):
        if name != "":
            found[place] = constants[name].item()
    return tuple(found)
