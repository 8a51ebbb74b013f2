def fp16_fate(values):
    """What becomes of numbers in fp16: {"normal": n, "subnormal": n, "zero": n, "infinite": n}.

    values: float32 or float64, any shape. Each n counts the elements that are so after rounding, negative
    ones included; "zero" counts those that were 0 before as well.
    """
    ...  # your code
