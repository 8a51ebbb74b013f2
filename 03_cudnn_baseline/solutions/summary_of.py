import numpy as np


def summary_of(times_us, warm_up):
    """(median, p5, p95) of the samples, in the order in which they were taken, the first
    `warm_up` left out.

    Percentiles are interpolated linearly between the two samples that they lie between, as
    numpy.percentile does. ValueError if no sample is left. The list that comes in is not
    changed.
    """
    # BEGIN SOLUTION
    # write: median, 5th and 95th percentile
    kept = times_us[warm_up:]
    if not kept:
        raise ValueError(f"{warm_up} of {len(times_us)} samples are warm-up, none is left")
    p5, median, p95 = (float(value) for value in np.percentile(kept, (5, 50, 95)))
    return median, p5, p95
    # END SOLUTION
