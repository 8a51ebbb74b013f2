def clip_bounds(node, constants):
    """The bounds (lower, upper) of a Clip node as floats; −inf or inf where one is not given.

    node        onnx.NodeProto. Up to operator set 10 the bounds are the attributes "min" and "max".
                From 11 on they are its second and third input; one that is left out is named "",
                or the list of inputs ends before it
    constants   the model's constants by name, NumPy arrays without dimensions
    """
    lower, upper = float("-inf"), float("inf")
    ...  # your code: the attributes
    ...  # your code: the inputs
    return lower, upper
