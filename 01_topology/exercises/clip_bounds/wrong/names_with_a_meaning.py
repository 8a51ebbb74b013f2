# expect: whatever the names are
def clip_bounds(node, constants):
    bounds = {"min": float("-inf"), "max": float("inf")}
    for attribute in node.attribute:
        bounds[attribute.name] = attribute.f
    for name, place in zip(node.input[1:], ("min", "max"), strict=False):
        if name:
            key = "max" if name in ("max", "high") else "min" if name in ("min", "low") else place
            bounds[key] = float(constants[name])
    return bounds["min"], bounds["max"]
