"""Sensitivity: how much each layer in integers changes the network's output, and which layers should stay in float."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..network.reference import run_layer
from ..topology import Dequantize, Graph, Grid, Quantize
from .calibration import outputs, tensors
from .quantizer import PRODUCTS, Quantized, units, with_grids


@dataclass(frozen=True)
class Sensitivity:
    """layer: its name. error: ‖output − output in float32‖ / ‖output in float32‖ with this layer alone in integers."""

    layer: str
    error: float


def relative_error(y: np.ndarray, reference: np.ndarray) -> float:
    """‖y − reference‖ / ‖reference‖ in float64."""
    wanted = reference.astype(np.float64)
    return float(np.linalg.norm(y - wanted) / np.linalg.norm(wanted))


def agreement(y: np.ndarray, reference: np.ndarray) -> float:
    """The share of pictures with the same most likely class, of scores (N, classes)."""
    return float((y.argmax(1) == reference.argmax(1)).mean())


def check_wanted(wanted: float) -> None:
    """Raise ValueError unless `wanted` is a share of the pictures."""
    if not 0 <= wanted <= 1:
        raise ValueError(f"wanted must be an agreement between 0 and 1, got {wanted}")


def sensitivities(
    graph: Graph, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid], x: np.ndarray, *,
    per_channel: bool = True, weight_bits: int = 8,
) -> list[Sensitivity]:  # fmt: skip
    """The sensitivity of each convolution and linear layer on the pictures x (N, C, H, W), the largest first.

    grids: as of quantizer.calibrated. One run of the network per layer, in float32 with rounded numbers.
    """
    reference = outputs(graph, parameters, x)
    products = [unit.layer.name for unit in units(graph) if isinstance(unit.layer, PRODUCTS)]
    found = []
    for name in products:
        others = set(products) - {name}
        alone = with_grids(graph, parameters, grids, per_channel=per_channel, in_float=others, weight_bits=weight_bits)
        found.append(Sensitivity(name, relative_error(outputs(alone.graph, alone.parameters, x), reference)))
    return sorted(found, key=lambda one: -one.error)


def choose(
    graph: Graph, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid], x: np.ndarray,
    ranking: Iterable[Sensitivity], wanted: float, *, per_channel: bool = True, weight_bits: int = 8,
) -> tuple[Quantized, tuple[str, ...]]:  # fmt: skip
    """(the network in QDQ form, the names of its layers in float32): as few as reach `wanted`, most sensitive first.

    wanted: the agreement with float32 on the pictures x, 0 … 1. ranking: as of `sensitivities`.
    ValueError if `wanted` is not between 0 and 1.
    """
    check_wanted(wanted)
    reference = outputs(graph, parameters, x)
    kept: list[str] = []
    names = [one.layer for one in ranking]
    while True:
        made = with_grids(graph, parameters, grids, per_channel=per_channel, in_float=kept, weight_bits=weight_bits)
        if len(kept) == len(names) or agreement(outputs(made.graph, made.parameters, x), reference) >= wanted:
            return made, tuple(kept)
        kept.append(names[len(kept)])


@dataclass(frozen=True)
class LayerError:
    """The errors of one layer's output in a quantized network, each relative to the output in float32.

    layer: its name. so_far: with the errors of all layers before. own: of a layer that reads exact inputs, rounded to
    their grids.
    """

    layer: str
    so_far: float
    own: float


def layer_errors(
    graph: Graph, parameters: Mapping[str, np.ndarray], made: Quantized, x: np.ndarray
) -> list[LayerError]:
    """The errors of each layer of a quantized network `made` of a network in float32, on the pictures x (N, C, H, W).

    An output that has a grid is rounded to it. All is computed in float32, with rounded numbers.
    """
    import torch

    exact = dict(tensors(graph.with_batch(len(x)), parameters, x))
    quantized = made.graph.with_batch(len(x))
    real = dict(tensors(quantized, made.parameters, x))
    grids = {layer.inputs[0]: layer.grid for layer in quantized if isinstance(layer, Quantize)}
    codes = {layer.output: layer.inputs[0] for layer in quantized if isinstance(layer, Quantize)}
    source = {layer.output: codes[layer.inputs[0]] for layer in quantized if isinstance(layer, Dequantize)}
    given = {name: torch.from_numpy(np.array(array)) for name, array in made.parameters.items()}

    def rounded(name: str, values: np.ndarray) -> np.ndarray:
        return grids[name].values(grids[name].codes(values)) if name in grids else values

    found = []
    for layer in quantized:
        if isinstance(layer, Quantize | Dequantize):
            continue
        read = [rounded(source[name], exact[source[name]]) if name in source else exact[name] for name in layer.inputs]
        with torch.no_grad():
            y = run_layer(layer, [torch.from_numpy(np.array(values, np.float32)) for values in read], given).numpy()
        want = exact[layer.output]
        own, so_far = (relative_error(rounded(layer.output, one), want) for one in (y, real[layer.output]))
        found.append(LayerError(layer.name, so_far, own))
    return found
