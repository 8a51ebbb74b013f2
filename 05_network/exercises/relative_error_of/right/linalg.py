import numpy as np


def relative_error_of(out, ref):
    if np.shape(out) != np.shape(ref):
        raise ValueError("the shapes differ")
    exact = np.asarray(ref, np.float64).ravel()
    return float(np.linalg.norm(np.asarray(out, np.float64).ravel() - exact) / np.linalg.norm(exact))
