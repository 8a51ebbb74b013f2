"""Numbers in 8 or 16 bits with one scale per tensor: fp16, int8, and e4m3, the fp8 of tensor cores.

    FORMATS["e4m3"](x, greatest)                        an array rounded to a format, as float32
    outputs_in(graph, parameters, x, layers, "e4m3")    a network with some layers' inputs and weights in a format

e4m3 has a sign, 4 bits of exponent and 3 of fraction: a spacing of 1/8 to 1/16 of a number from 2^−6 to 448, and of
2^−9 below. It has no infinity. (P. Micikevicius et al., arXiv:2209.05433, section 3.)
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from ..network.reference import run_layer
from ..topology import Graph
from ..topology import layers as kinds
from .calibration import batches, tensors

LARGEST = 448.0  # of e4m3
FRACTION, LEAST_EXPONENT = 3, -6
PRODUCTS = (kinds.Conv2d, kinds.Linear)


def e4m3(x: np.ndarray) -> np.ndarray:
    """Each number rounded to e4m3, round half to even; beyond ±448 the result is ±448. float32."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(x)  # |x| = 0.5 … 1 · 2^exponent
    step = np.ldexp(1.0, np.maximum(exponent - 1, LEAST_EXPONENT) - FRACTION)
    return np.clip(np.rint(x / step) * step, -LARGEST, LARGEST).astype(np.float32)


def _fp16(x: np.ndarray, greatest: float) -> np.ndarray:
    return np.asarray(x).astype(np.float16).astype(np.float32)


def _int8(x: np.ndarray, greatest: float) -> np.ndarray:
    scale = np.float32(greatest / 127 if greatest > 0 else 1)
    return np.clip(np.rint(x / scale), -127, 127).astype(np.float32) * scale


def _e4m3(x: np.ndarray, greatest: float) -> np.ndarray:
    scale = np.float32(greatest / LARGEST if greatest > 0 else 1)
    return e4m3(x / scale) * scale


# by name, a function of an array and of the greatest |number|, which a format with a scale represents exactly
FORMATS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {"fp16": _fp16, "int8": _int8, "e4m3": _e4m3}


def greatest_inputs(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, layers: Collection[str]
) -> dict[str, float]:
    """By layer, the greatest |number| of its input over the calibration pictures x (N, C, H, W)."""
    wanted = {layer.inputs[0] for layer in graph if layer.name in layers}
    found: dict[str, float] = {}
    for batch in batches(x):
        for name, values in tensors(graph.with_batch(len(batch)), parameters, batch):
            if name in wanted:
                found[name] = max(found.get(name, 0.0), float(np.abs(values).max()))
    return {layer.name: found[layer.inputs[0]] for layer in graph if layer.name in layers}


def outputs_in(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, greatest: Mapping[str, float], form: str
) -> np.ndarray:
    """The network's output for the pictures x, with inputs and weights of the layers of `greatest` in a format.

    greatest: as of `greatest_inputs`, over calibration pictures. form: of FORMATS. Products and sums are float32.
    ValueError for another format, and for a layer that is no convolution or linear layer of the graph.
    """
    import torch

    if form not in FORMATS:
        raise ValueError(f"form must be one of {', '.join(FORMATS)}, got {form!r}")
    products = {layer.name: layer for layer in graph if isinstance(layer, PRODUCTS)}
    if unknown := set(greatest) - set(products):
        raise ValueError(f"greatest must be of convolutions and linear layers, got {min(unknown)!r}")
    rounded, given = FORMATS[form], {name: np.array(array, np.float32) for name, array in parameters.items()}
    for name in greatest:
        weight = given[products[name].weight]
        given[products[name].weight] = rounded(weight, float(np.abs(weight).max()))
    held = {name: torch.from_numpy(array) for name, array in given.items()}
    found = []
    with torch.no_grad():
        for batch in batches(x):
            there = {graph.input: torch.from_numpy(np.asarray(batch, np.float32))}
            for layer in graph.with_batch(len(batch)):
                read = [there[name] for name in layer.inputs]
                if layer.name in greatest:
                    read[0] = torch.from_numpy(rounded(read[0].numpy(), greatest[layer.name]))
                there[layer.output] = run_layer(layer, read, held)
            found.append(there[graph.output].numpy())
    return np.concatenate(found)
