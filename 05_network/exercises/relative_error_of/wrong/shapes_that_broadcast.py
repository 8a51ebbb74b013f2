# expect: the statement asks for an error wherever
import numpy as np


def relative_error_of(out, ref):
    if out.ndim == ref.ndim and out.shape != ref.shape:
        raise ValueError("the shapes differ")
    out, ref = out.astype(np.float64), ref.astype(np.float64)
    return float(np.sqrt(((out - ref) ** 2).sum()) / np.sqrt((ref**2).sum()))
