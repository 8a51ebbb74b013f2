import numpy as np


def relative_error_of(out, ref):
    """How far out is from ref: ‖out − ref‖ / ‖ref‖, a float, computed in float64.

    out, ref: NumPy arrays of float16, float32 or float64, of any number of dimensions. ‖a‖ is
    the root of the sum of the squares of all elements. ref is not all zeros. NaN in out gives
    NaN. ValueError if the shapes are not the same.
    """
    # BEGIN SOLUTION
    # write: the relative error, in float64
    if out.shape != ref.shape:
        raise ValueError(f"out has shape {out.shape}, ref {ref.shape}")
    out, ref = out.astype(np.float64), ref.astype(np.float64)
    return float(np.sqrt(((out - ref) ** 2).sum()) / np.sqrt((ref**2).sum()))
    # END SOLUTION
