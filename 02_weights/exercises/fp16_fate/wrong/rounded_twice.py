# expect: round once
import numpy as np


def fp16_fate(values):
    with np.errstate(over="ignore"):
        size = np.abs(np.asarray(values).astype(np.float32).astype(np.float16))
    infinite, zero = int(np.isinf(size).sum()), int((size == 0).sum())
    subnormal = int(((size > 0) & (size < 2**-14)).sum())
    return {
        "normal": size.size - infinite - zero - subnormal,
        "subnormal": subnormal,
        "zero": zero,
        "infinite": infinite,
    }
