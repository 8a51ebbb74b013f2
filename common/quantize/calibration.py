"""Calibration: a network in float32 over some pictures, and the histogram of each tensor."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from ..network.reference import run_layer
from ..topology import Graph
from .ranges import Histogram

BATCH = 16  # pictures at a time


def tensors(graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """(name, values) of the input and of each layer's output, by PyTorch in float32, in the order of computation.

    Codes of Quantize layers are float32, too: layers compute what the model says, in real numbers. A tensor that no
    layer needs any more is released, so not all are in memory at once.
    """
    import torch

    given = {name: torch.from_numpy(np.array(array)) for name, array in parameters.items()}
    last = {name: i for i, layer in enumerate(graph) for name in layer.inputs}
    alive = {graph.input: torch.from_numpy(np.asarray(x, np.float32))}
    yield graph.input, alive[graph.input].numpy()
    for i, layer in enumerate(graph):
        with torch.no_grad():
            result = run_layer(layer, [alive[name] for name in layer.inputs], given)
        yield layer.output, result.numpy()
        alive[layer.output] = result
        for name in {*layer.inputs, layer.output}:
            if last.get(name, -1) <= i:
                del alive[name]


def batches(x: np.ndarray) -> Iterator[np.ndarray]:
    """The pictures (N, C, H, W), BATCH at a time."""
    return (x[start : start + BATCH] for start in range(0, len(x), BATCH))


def outputs(graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The network's output for the pictures x, (N, classes) float32, as of `tensors`."""
    found = []
    for batch in batches(x):
        one = graph.with_batch(len(batch))
        found += [values for name, values in tensors(one, parameters, batch) if name == graph.output]
    return np.concatenate(found)


def histograms(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, observed: Collection[str]
) -> dict[str, Histogram]:
    """The histogram of each observed tensor over the pictures x (N, C, H, W): two runs, as ranges come before counts.

    ValueError if a tensor is not finite for some picture.
    """
    ranges: dict[str, tuple[float, float]] = {}
    for batch in batches(x):
        for name, values in tensors(graph.with_batch(len(batch)), parameters, batch):
            if name in observed:
                low, high = ranges.get(name, (np.inf, -np.inf))
                ranges[name] = min(low, float(values.min())), max(high, float(values.max()))
    for name, ends in ranges.items():
        if not np.isfinite(ends).all():
            raise ValueError(f"calibration: tensor {name!r} must be finite for every picture, got {ends}")
    found = {name: Histogram.over(*ends) for name, ends in ranges.items()}
    for batch in batches(x):
        for name, values in tensors(graph.with_batch(len(batch)), parameters, batch):
            if name in found:
                found[name].add(values)
    return found


def channel_maxima(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, observed: Collection[str]
) -> dict[str, np.ndarray]:
    """The greatest number of each channel of the observed tensors (N, C, …) over the pictures, (C,)."""
    found: dict[str, np.ndarray] = {}
    for batch in batches(x):
        for name, values in tensors(graph.with_batch(len(batch)), parameters, batch):
            if name in observed:
                greatest = values.max(axis=tuple(i for i in range(values.ndim) if i != 1))
                found[name] = np.maximum(found.get(name, greatest), greatest)
    return found


def extremes(
    graph: Graph, parameters: Mapping[str, np.ndarray], x: np.ndarray, observed: Collection[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By observed tensor, (the least, the greatest number of each picture), (N,) each, over the pictures x.

    Numbers that are not finite are left to `histograms`, which refuses them.
    """
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for batch in batches(x):
        for name, values in tensors(graph.with_batch(len(batch)), parameters, batch):
            if name in observed:
                rows = values.reshape(len(batch), -1)
                found.setdefault(name, []).append((rows.min(axis=1), rows.max(axis=1)))
    return {
        name: (np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts]))
        for name, parts in found.items()
    }
