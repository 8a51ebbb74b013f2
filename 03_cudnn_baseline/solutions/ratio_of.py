import numpy as np


def ratio_of(samples, a, b):
    """time(a) / time(b) from samples: the median of the rounds' ratios.

    samples: tuples (name, µs) in the order in which they were taken; there may be more names
    than a and b. The i-th sample of a and the i-th of b are round i, whichever came first.
    ValueError if a and b have not been sampled equally often.
    """
    # BEGIN SOLUTION
    # write: the median of the rounds' ratios
    of_a = [us for name, us in samples if name == a]
    of_b = [us for name, us in samples if name == b]
    if len(of_a) != len(of_b):
        raise ValueError(f"{len(of_a)} samples of {a}, {len(of_b)} of {b}")
    return float(np.median([x / y for x, y in zip(of_a, of_b, strict=True)]))
    # END SOLUTION
