# expect: ratio_of
import numpy as np


def ratio_of(samples, a, b):
    of_a = [us for name, us in samples if name == "a"]
    of_b = [us for name, us in samples if name == "b"]
    if len(of_a) != len(of_b):
        raise ValueError("a round is broken")
    return float(np.median([x / y for x, y in zip(of_a, of_b, strict=True)]))
