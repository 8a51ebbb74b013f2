"""What notebook 02/3 checks of answers that are no exercises: the first flaw of each, in words, "" if it is right."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ..topology import Graph, Layer, ReLU6

Accumulate = Callable[[np.ndarray, Any], np.ndarray]


def largest_flaw(largest: Mapping[str, float], graph: Graph, place: Callable[[Layer], str], run: Callable) -> str:
    """The flaw of {place: largest absolute value of the stored activations}.

    run: called with see=, a function that gets each layer and its output.
    """
    expected: dict[str, float] = {}
    not_stored = {layer.inputs[0] for layer in graph if isinstance(layer, ReLU6)}

    def see(layer: Layer, y: torch.Tensor) -> None:
        if layer.output not in not_stored:
            kind = place(layer)
            expected[kind] = max(expected.get(kind, 0.0), float(y.abs().max()))

    run(see=see)
    if not largest:
        return "✗ largest is empty: see stores nothing in it"
    for kind, size in expected.items():
        if kind not in largest:
            return f"✗ largest has no entry for {kind!r}"
        try:
            got = float(largest[kind])
        except (TypeError, ValueError):
            return f"✗ largest[{kind!r}] is {largest[kind]!r}, expected a number"
        if got != size:
            why = "are all outputs of the kind counted, and no others?"
            return f"✗ largest[{kind!r}] is {got:.4g}, expected {size:.4g}: {why}"
    wrong = [kind for kind in largest if kind not in expected]
    return f"✗ largest has the key {wrong[0]!r}: the keys are those of place" if wrong else ""


def in_turn(products: np.ndarray, dtype: Any) -> np.ndarray:
    """The sum over dimension 0 in an accumulator of type dtype, one row after the other."""
    total = np.zeros(products.shape[1], dtype)
    for row in products:
        total = (total.astype(np.float32) + row).astype(dtype)
    return total


def accumulate_flaw(accumulate: Accumulate) -> str:
    """The flaw of a sum whose accumulator is rounded after each addition."""
    random = np.random.default_rng(5)
    cases = {
        "1 + 2^-11 + 2^-11": np.array([[1.0], [2.0**-11], [2.0**-11]], np.float32),
        "4096 ones in one column": np.ones((4096, 1), np.float32),
        "4096 ones in three columns": np.ones((4096, 3), np.float32),
        "products that are no fp16 numbers": (random.random((300, 4)) * 6 - 2).astype(np.float32),
    }
    for case, products in cases.items():
        for dtype in (np.float16, np.float32):
            got, expected = accumulate(products.copy(), dtype), in_turn(products, dtype)
            what = f"✗ {case}, {np.dtype(dtype)}:"
            if not isinstance(got, np.ndarray) or got.shape != expected.shape:
                return f"{what} the shape is {np.shape(got)}, expected {expected.shape}"
            if got.dtype != dtype:
                return f"{what} the result is of type {got.dtype}, expected {np.dtype(dtype)}"
            if not np.array_equal(got, expected):
                why = _why_other_sum(got, products, dtype)
                return f"{what} {got[0]:.8g}, expected {expected[0]:.8g}{why}"
    return ""


def _why_other_sum(got: np.ndarray, products: np.ndarray, dtype: Any) -> str:
    if np.array_equal(got, products.sum(0).astype(dtype)):
        return ": rounded once at the end, not after each addition (NumPy's sum of one column does so, too)"
    if np.array_equal(got, in_turn(products.astype(dtype).astype(np.float32), dtype)):
        return ": each product was rounded before it was added"
    return ""


def int8_flaw(int8: Callable[[np.ndarray, bool], np.ndarray]) -> str:
    """The flaw of the rounding of weights (O, I, kH, kW) to int8, with one scale or one per output channel."""
    random = np.random.default_rng(6)
    weight = random.normal(size=(6, 3, 3, 3)).astype(np.float32)
    weight *= 2.0 ** np.arange(-3, 3, dtype=np.float32).reshape(-1, 1, 1, 1)
    weight[-1, 0, 0, 0] = -2 * np.abs(weight).max()  # the largest is negative
    for per_channel in (False, True):
        got = int8(weight.copy(), per_channel)
        what = f"✗ int8(weight, {per_channel})"
        if not isinstance(got, np.ndarray) or got.shape != weight.shape:
            return f"{what}: the shape is {np.shape(got)}, expected {weight.shape}"
        scale = np.abs(weight).max(axis=(1, 2, 3) if per_channel else None, keepdims=True) / 127
        level = got / scale
        if np.abs(level - np.round(level)).max() > 1e-3:
            return f"{what}: {got.flat[0]:.4g} is no whole number times the scale (largest |w| / 127)"
        if (np.abs(got - weight) > 0.501 * scale).any():
            return f"{what}: a weight is off by more than half a step of its scale"
    return ""


def convolve_rounded(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    stride: tuple[int, int] = (1, 1),
    groups: int = 1,
    *,
    store: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """A convolution without padding whose accumulators are rounded by `store` after each addition.

    groups: 1, or the number of channels.
    """
    (height, width), (rows, columns) = x.shape[2:], weight.shape[2:]
    down, right = (height - rows) // stride[0] + 1, (width - columns) // stride[1] + 1
    total = torch.zeros(len(x), len(weight), down, right)
    for i in range(weight.shape[1]):
        channel = x if groups > 1 else x[:, i : i + 1]
        for v in range(rows):
            for u in range(columns):
                seen = channel[:, :, v :: stride[0], u :: stride[1]][:, :, :down, :right]
                term = weight[:, i, v, u].reshape(1, -1, 1, 1)
                total = store(total.addcmul_(seen, term))
    return total + bias.reshape(1, -1, 1, 1)
