"""Every backend against ONNX Runtime on the same random inputs: error, agreement, time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from . import Network, available

# ‖out − ref‖ / ‖ref‖ of a whole network, by arithmetic
TOLERANCES = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3}
TOLERANCE = TOLERANCES["fp32"]

CHOICES = {"kernels": ("dtype",), "cudnn": ("dtype", "layout", "arithmetic", "tune")}


@dataclass(frozen=True)
class Comparison:
    """One backend against the reference: largest relative error, images with the same top 5, median time of a call."""

    backend: str
    arithmetic: str
    error: float
    same_top5: int
    images: int
    milliseconds: float

    @property
    def within_contract(self) -> bool:
        return self.error <= TOLERANCES[self.arithmetic] and self.same_top5 == self.images  # false for NaN


def relative_error(result: Any, reference: Any) -> float:
    """‖result − reference‖ / ‖reference‖ in float64; NaN if either holds one."""
    result, reference = np.asarray(result, np.float64), np.asarray(reference, np.float64)
    if result.shape != reference.shape:
        raise ValueError(f"result has shape {result.shape}, the reference {reference.shape}")
    error, size = float(np.linalg.norm(result - reference)), float(np.linalg.norm(reference))
    return error / max(size, float(np.finfo(np.float64).tiny))


def top(scores: np.ndarray, k: int = 5) -> np.ndarray:
    """The k classes of the highest scores, best first: (N, classes) → (N, min(k, classes))."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def compare(
    model: Any, inputs: int = 10, size: int | None = None, backends: Sequence[str] | None = None,
    seed: int | None = None, **options: Any,
) -> list[Comparison]:  # fmt: skip
    """Runs `inputs` random images (N(0, 1), float32, drawn afresh unless `seed` is given) through every backend.

    size: height and width; None takes the model's own. backends: None takes all that this machine can run. options:
    dtype, layout, arithmetic, tune of Network, for the backends that have a choice of them. The reference, ONNX
    Runtime, comes first.
    """
    reference = Network(model, "onnxruntime")
    _, channels, height, width = reference.input_shape
    shape = (1, channels, size or height, size or width)
    random = np.random.default_rng(seed)
    images = [random.standard_normal(shape, dtype=np.float32) for _ in range(inputs)]
    expected = [cuda.asnumpy(reference(x)).reshape(1, -1) for x in images]

    rows = []
    for backend in dict.fromkeys(["onnxruntime", *(available() if backends is None else backends)]):
        mine = {name: value for name, value in options.items() if name in CHOICES.get(backend, ())}
        net = reference if backend == "onnxruntime" else Network(model, backend, **mine)
        net(images[0])  # compiles, makes the buffers
        errors, same, times = [], 0, []
        for x, want in zip(images, expected, strict=True):
            start = time.perf_counter()
            got = cuda.asnumpy(net(x)).reshape(1, -1)
            times.append(time.perf_counter() - start)
            errors.append(relative_error(got, want))
            same += bool((top(got) == top(want)).all())
        error = float("nan") if np.isnan(errors).any() else max(errors)
        rows.append(Comparison(backend, net.arithmetic, error, same, inputs, 1e3 * float(np.median(times))))
    return rows
