import numpy as np


def fp16_fate(values):
    """What becomes of numbers in fp16: {"normal": n, "subnormal": n, "zero": n, "infinite":
    n}.

    values: float32 or float64, any shape, no NaN. Each n counts the elements that are so after
    rounding, negative ones included; "zero" counts those that were 0 before as well.
    """
    # BEGIN SOLUTION
    # write: how many numbers end in each of the four kinds
    with np.errstate(over="ignore"):
        size = np.abs(np.asarray(values).astype(np.float16))
    smallest_normal = np.finfo(np.float16).smallest_normal
    infinite, zero = int(np.isinf(size).sum()), int((size == 0).sum())
    subnormal = int(((size > 0) & (size < smallest_normal)).sum())
    return {
        "normal": size.size - infinite - zero - subnormal,
        "subnormal": subnormal,
        "zero": zero,
        "infinite": infinite,
    }
    # END SOLUTION
