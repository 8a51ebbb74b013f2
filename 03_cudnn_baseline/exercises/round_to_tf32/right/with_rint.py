import numpy as np


def round_to_tf32(x):
    exact = np.asarray(x).astype(np.float64)
    exponent = np.maximum(np.frexp(exact)[1], -125) - 11
    return np.ldexp(np.rint(np.ldexp(exact, -exponent)), exponent).astype(np.float32)
