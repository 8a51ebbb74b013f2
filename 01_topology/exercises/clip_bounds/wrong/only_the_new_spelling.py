# expect: up to operator set 10 the bounds are attributes
def clip_bounds(node, constants):
    lower, upper = float("-inf"), float("inf")
    names = [*node.input, "", ""]
    if names[1]:
        lower = float(constants[names[1]])
    if names[2]:
        upper = float(constants[names[2]])
    return lower, upper
