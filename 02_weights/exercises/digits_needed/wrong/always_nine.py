# expect: nine are always enough; for these numbers fewer may do
def digits_needed(values):
    """The fewest significant digits with which every number of a float32 array survives as text.

    A number is written as f"{value:.{digits}g}", read back as float32, and survives if that gives the same
    number exactly. `digits` counts from 1.
    """
    return 9
