# expect: leave out the first
import numpy as np


def summary_of(times_us, warm_up):
    kept = times_us[warm_up:]
    if not kept:
        raise ValueError("none is left")
    kept = times_us[min(warm_up, 1000) :]
    p5, median, p95 = (float(value) for value in np.percentile(kept, (5, 50, 95)))
    return median, p5, p95
