"""What "correct" means for an operator, and the inputs that its tests draw."""

import math

import numpy as np
import pytest
import torch

from common import cuda, kernels

torch.set_num_threads(1)  # its threads would wait for cores that the simulator uses

TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float16): 2e-3}  # float32's grows with the root of K

TOLERANCE[np.dtype(np.float64)] = 1e-13

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float16])


def every_rung(operator):
    """The test runs once for each rung of the operator's ladder, those of later chapters included."""
    return pytest.mark.parametrize("variant", kernels.variants(operator))


def every_rung_and_dtype(operator, dtypes=("float32", "float16"), layout=None):
    """The test runs once for each rung and each of the dtypes that it takes: parameters `variant` and `dtype`.

    Rungs that the card at hand is too old for are skipped, with the reason.
    """

    def mark(variant):
        needed, on_a_gpu = kernels.requires(operator, variant), cuda.backend() == "gpu"
        skip = pytest.mark.skipif(
            on_a_gpu and needed > cuda.compute_capability(), reason=f"{variant} needs a card of sm_{needed}"
        )
        return (skip,)

    pairs = [
        pytest.param(variant, np.dtype(dtype).type, id=f"{variant}-{dtype}", marks=mark(variant))
        for dtype in dtypes
        for variant in kernels.variants(operator, dtype, layout)
    ]
    return pytest.mark.parametrize(("variant", "dtype"), pairs)


def draw(rng, *shape, dtype=np.float32):
    """Numbers around 1/2, so that neither their order nor their sign can be mistaken unseen; NumPy."""
    return (rng.standard_normal(shape) + 0.5).astype(dtype)


def poisoned(shape, dtype):
    """An output array of the backend in which an element that nobody writes stays NaN."""
    return cuda.full(shape, np.nan, dtype)


def f64(array):
    """An array as a float64 tensor, for a reference."""
    return None if array is None else torch.from_numpy(np.asarray(array)).double()


def on_device(array):
    """A NumPy array, or None, as the backend's."""
    return None if array is None else cuda.asarray(array)


def agrees(out, reference, k=1, floor=0.0):
    """Asserts ‖out − reference‖ ≤ tolerance · ‖reference‖; NaN in `out` never agrees.

    k: the reduction length. floor: a reference that is smaller, per element, counts as that large: when one sum alone
    is looked at and cancels to nearly nothing, rounding is all that is left of it.
    """
    result = cuda.asnumpy(out)
    reference = np.asarray(reference, np.float64)
    assert result.shape == reference.shape
    allowed = TOLERANCE[result.dtype] * (1 if result.dtype == np.float16 else math.sqrt(k))
    size = max(np.linalg.norm(reference), floor * math.sqrt(reference.size))
    error = np.linalg.norm(result.astype(np.float64) - reference)
    assert error <= allowed * size, f"relative error {error / max(size, 1e-300):.1e}, allowed {allowed:.1e}"
