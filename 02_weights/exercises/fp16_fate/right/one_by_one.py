import numpy as np


def fp16_fate(values):
    counts = dict.fromkeys(("infinite", "zero", "subnormal", "normal"), 0)
    with np.errstate(over="ignore"):
        for value in np.abs(values).flat:
            half = np.float16(value)
            if half == np.inf:
                counts["infinite"] += 1
            elif half == 0:
                counts["zero"] += 1
            else:
                counts["subnormal" if half < 2**-14 else "normal"] += 1
    return counts
