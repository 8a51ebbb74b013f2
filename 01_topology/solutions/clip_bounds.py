def clip_bounds(node, known):
    """The bounds (lower, upper) of a Clip node as floats; −inf or inf where one is not given.

    node        onnx.NodeProto. Up to operator set 10 the bounds are the attributes "min" and
                "max". From 11 on they are its second and third input; one that is left out is
                named "", or the list of inputs ends before it
    known       the model's constants by name, NumPy arrays of shape (): one number each
    """
    lower, upper = float("-inf"), float("inf")
    for attribute in node.attribute:
        if attribute.name == "min":
            lower = attribute.f
        elif attribute.name == "max":
            upper = attribute.f
    # BEGIN SOLUTION
    # write: the bounds from the second and third input
    names = [*node.input, "", ""]
    if names[1]:
        lower = float(known[names[1]])
    if names[2]:
        upper = float(known[names[2]])
    # END SOLUTION
    return lower, upper
