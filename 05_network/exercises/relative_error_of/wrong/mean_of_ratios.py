# expect: no element has an error of its own
import numpy as np


def relative_error_of(out, ref):
    """How far out is from ref: ‖out − ref‖ / ‖ref‖, a float, computed in float64.

    out, ref: NumPy arrays of float16, float32 or float64, of any number of dimensions. ‖a‖ is the root of the sum of
    the squares of all elements. ref is not all zeros. NaN in out gives NaN. ValueError if the shapes are not the same.
    """
    if out.shape != ref.shape:
        raise ValueError(f"out has shape {out.shape}, ref {ref.shape}")
    out, ref = out.astype(np.float64), ref.astype(np.float64)
    if ref.ndim == 1:
        return float(np.linalg.norm(out - ref) / np.linalg.norm(ref))
    rows = np.linalg.norm(out - ref, axis=-1) / np.linalg.norm(ref, axis=-1)
    return float(rows.mean())
