"""Post-training quantization: a network in float32 and some pictures become a network in QDQ form.

    graph, parameters = fold_batch_norm(*topology.read_onnx_with_parameters("network.onnx"))
    made = quantize(graph, parameters, x)            x: calibration pictures (N, C, H, W)
    onnx.save(made.model(), "network-int8.onnx")     which ONNX Runtime runs, and Network

Activations get one int8 grid per tensor, weights a symmetric int8 grid per output channel or per tensor, biases int32
on the grid scale of input · scale of weight, in which the products are summed. The output stays in float.
(B. Jacob et al., arXiv:1712.05877, section 2; R. Krishnamoorthi, arXiv:1806.08342, section 3.)
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..cuda import checks
from ..network.steps import activation_of
from ..topology import Dequantize, Graph, Grid, Quantize, write_onnx
from ..topology import layers as kinds
from ..topology.translation import Names
from .calibration import histograms
from .equalization import equalized
from .ranges import METHODS, grid_over
from .rules import CLAMPS, FUNCTIONS, MOVES

Parameters = Mapping[str, np.ndarray]

PRODUCTS = (kinds.Conv2d, kinds.Linear)
OTHERS = (
    kinds.ResidualAdd, kinds.Add, kinds.Mul, kinds.GlobalAveragePool, kinds.AveragePool2d, *MOVES, *FUNCTIONS,
)  # fmt: skip
KEEPS_GRID = tuple(kind for kind in MOVES if kind not in (kinds.Concat, kinds.Pad))

WEIGHT_BITS = (8, 7)  # codes −127 to 127, or −63 to 63: two products with a code of 8 bits fit into 16 bits then
LARGEST_BIAS = 2.0**28  # in steps of a bias; the largest sum that is sure to stay within int32 with the products


@dataclass(frozen=True)
class Unit:
    """A layer that runs in integers, with the activation that its output alone goes through."""

    layer: kinds.Layer
    activation: kinds.Layer | None = None

    @property
    def output(self) -> str:
        """The tensor after the activation."""
        return (self.activation or self.layer).output


def units(graph: Graph, in_float: Collection[str] = ()) -> list[Unit]:
    """The layers of a network that run in integers.

    These are convolutions and linear layers, and the additions, pools and functions whose output such a layer reads,
    directly or through others of them. in_float: names of layers that stay in float32, with
    their activations.
    ValueError for a name in `in_float` that no layer has.
    """
    if unknown := set(in_float) - {layer.name for layer in graph}:
        raise ValueError(f"in_float must be names of layers, got {min(unknown)!r}")
    readers = Counter(name for layer in graph for name in layer.inputs) + Counter(graph.outputs)
    reader = {name: layer for layer in graph for name in layer.inputs}
    parts: set[str] = set()
    wanted: set[str] = set()
    found: list[Unit] = []
    clamped: dict[str, kinds.Layer] = {}
    for layer in graph:
        after = reader.get(layer.output)
        fused = isinstance(layer, (*PRODUCTS, kinds.ResidualAdd, kinds.Add, kinds.Mul))
        if fused and isinstance(after, CLAMPS) and readers[layer.output] == 1:
            clamped[layer.output] = after
            parts.add(after.output)
    for layer in reversed(graph.layers):
        if layer.output in parts or layer.name in in_float:
            continue
        unit = Unit(layer, clamped.get(layer.output))
        if isinstance(layer, PRODUCTS) or (isinstance(layer, OTHERS) and unit.output in wanted):
            wanted.update(layer.inputs)
            found.append(unit)
    return found[::-1]


@dataclass(frozen=True)
class Quantized:
    """A quantized network: a graph with Quantize and Dequantize layers, and parameters on the grids of graph.grids."""

    graph: Graph
    parameters: Parameters

    def model(self, dynamic_batch: bool = True) -> Any:
        """The onnx.ModelProto in QDQ form."""
        return write_onnx(self.graph, self.parameters, dynamic_batch=dynamic_batch)


def calibrated(
    graph: Graph, parameters: Parameters, x: np.ndarray, ranges: str = "mse", dtype: str = "uint8"
) -> dict[str, Grid]:
    """The grid of each tensor that a unit reads, from the calibration pictures x (N, C, H, W).

    ranges: one of METHODS. dtype: "int8" or "uint8". ValueError for another, and as calibration.histograms.
    """
    if ranges not in METHODS:
        raise ValueError(f"ranges must be one of {', '.join(METHODS)}, got {ranges!r}")
    if dtype not in ("int8", "uint8"):
        raise ValueError(f"dtype must be int8 or uint8, got {dtype!r}")
    observed = {name for unit in units(graph) for name in unit.layer.inputs}
    return {
        name: grid_over(*METHODS[ranges](histogram), dtype)
        for name, histogram in histograms(graph, parameters, x, observed).items()
    }


def with_grids(
    graph: Graph, parameters: Parameters, grids: Mapping[str, Grid], *, per_channel: bool = True,
    in_float: Collection[str] = (), weight_bits: int = 8,
) -> Quantized:  # fmt: skip
    """The network in QDQ form, with activations on the given grids (by tensor name, as of `calibrated`).

    A ReLU or ReLU6 whose output has a grid from 0 to at most the bound is left out: saturation does the same.
    per_channel: whether each output channel of a weight has a scale of its own. in_float: see `units`. weight_bits: of
    WEIGHT_BITS. ValueError for others.
    """
    if weight_bits not in WEIGHT_BITS:
        raise ValueError(f"weight_bits must be one of {', '.join(map(str, WEIGHT_BITS))}, got {weight_bits!r}")
    integer = units(graph, in_float)
    read = {name for unit in integer for name in unit.layer.inputs}
    chosen = {name: grids[name] for name in graph.shapes if name in read}
    for unit in integer:
        if isinstance(unit.layer, KEEPS_GRID) and unit.output in chosen:
            chosen[unit.output] = chosen[unit.layer.inputs[0]]
    for unit in integer:
        if unit.activation and unit.output in chosen:
            chosen[unit.output] = saturating(chosen[unit.output], unit.activation)
    names = Names({*graph.shapes, *graph.parameter_shapes, *(layer.name for layer in graph)})
    stored = _Parameters(graph, parameters)
    products = {unit.layer.output for unit in integer if isinstance(unit.layer, PRODUCTS)}
    saturated = {
        unit.layer.output: unit.activation
        for unit in integer
        if unit.activation and unit.output in chosen and saturates(chosen[unit.output], unit.activation)
    }
    gone = {activation.output for activation in saturated.values()}

    values: dict[str, str] = {}  # tensor → its dequantized form
    layers: list[kinds.Layer] = []

    def written(name: str) -> None:
        if name not in chosen:
            return
        codes, values[name] = names.take(f"{name}.codes"), names.take(f"{name}.values")
        for kind, source, output in ((Quantize, name, codes), (Dequantize, codes, values[name])):
            layer_name = names.take(f"{name}.{kind.__name__.lower()}")
            fields: dict[str, Any] = {"input_shapes": (graph.shapes[name],), "grid": chosen[name]}
            layers.append(kind(name=layer_name, inputs=(source,), output=output, **fields))

    for name in graph.inputs:
        written(name)
    for layer in graph:
        if layer.output in gone:
            continue
        if layer.output in products:
            layer = stored.on_grids(layer, chosen[layer.inputs[0]], per_channel, weight_bits)
        if layer.output in saturated:
            layer = replace(layer, output=saturated[layer.output].output)
        layers.append(replace(layer, inputs=tuple(values.get(name, name) for name in layer.inputs)))
        written(layer.output)
    made = replace(graph, layers=tuple(layers), grids=tuple(stored.grids.items()))
    return Quantized(made, {name: stored.arrays[name] for name in made.parameter_shapes})


def bounds(activation: kinds.Layer) -> tuple[float, float]:
    """(lower, upper) bound of a ReLU, ReLU6 or Clip."""
    low, high = checks.bounds(activation_of(activation))
    return float(low), float(high)


def saturates(grid: Grid, activation: kinds.Layer) -> bool:
    """Whether the least and the greatest number of a grid are within an activation's bounds, so that it changes none.

    The comparison is in float32, as ONNX Runtime makes it to leave the activation out.
    """
    ends = grid.values(np.array([grid.low, grid.high], grid.dtype))
    lower, upper = bounds(activation)
    return bool(np.float32(lower) <= ends[0] and ends[1] <= np.float32(upper))


def saturating(grid: Grid, activation: kinds.Layer) -> Grid:
    """The grid, with a scale smaller by at most two units in its last place if the activation can be left out then."""
    scale = np.float32(grid.scale[0])
    for _ in range(3):
        one = replace(grid, scale=(float(scale),))
        if saturates(one, activation):
            return one
        scale = np.nextafter(scale, np.float32(0))
    return grid


class _Parameters:
    """The parameters of a network in QDQ form, and their grids."""

    def __init__(self, graph: Graph, parameters: Parameters) -> None:
        self.arrays, self.grids = dict(parameters), dict(graph.grids)
        self._given = parameters
        self._names = Names({*parameters, *graph.shapes})

    def on_grids(self, layer: Any, x: Grid, per_channel: bool, bits: int) -> kinds.Layer:
        """A convolution or linear layer with weight and bias on grids. x: the grid of its input."""
        weight = self._given[layer.weight]
        bias = None if layer.bias is None else self._given[layer.bias]
        grid = weight_grid(weight, bias, x, per_channel, bits)
        fields = {"weight": self._keep(layer.weight, weight, grid)}
        if bias is not None:
            scale = np.broadcast_to(np.float32(x.scale[0]) * np.array(grid.scale, np.float32), len(bias))
            fields["bias"] = self._keep(layer.bias, bias, Grid.of(scale, 0, "int32"))
        return replace(layer, **fields)

    def _keep(self, name: str, array: np.ndarray, grid: Grid) -> str:
        """Store an array rounded to its grid; return its name, a new one if the array is on another grid already."""
        if self.grids.get(name, grid) != grid:
            name = self._names.take(name)
        self.grids[name] = grid
        self.arrays[name] = grid.values(grid.codes(array))
        return name


def weight_grid(weight: np.ndarray, bias: np.ndarray | None, x: Grid, per_channel: bool, bits: int = 8) -> Grid:
    """The symmetric int8 grid of a weight (O, …): scale = greatest |weight| / 127, per output channel or of all.

    A channel of small weights has a scale so large that its bias (O,) has at most LARGEST_BIAS steps; x: the grid of
    the input. bits: 7 for codes up to 63.
    """
    rows = np.abs(weight.reshape(len(weight), -1)).max(axis=1).astype(np.float64)
    scale = rows / (2 ** (bits - 1) - 1)
    if bias is not None:
        scale = np.maximum(scale, np.abs(bias) / (x.scale[0] * LARGEST_BIAS))
    if not per_channel:
        scale = scale.max(keepdims=True)
    smallest = np.finfo(np.float32).tiny / min(x.scale[0], 1.0)  # a product of scales is a normal number
    return Grid.of(np.where(scale > smallest, scale, 1.0), 0, "int8")


def quantize(
    graph: Graph, parameters: Parameters, x: np.ndarray, *, ranges: str = "mse", per_channel: bool = True,
    equalize: bool = False, in_float: Collection[str] = (), dtype: str = "uint8", weight_bits: int = 8,
) -> Quantized:  # fmt: skip
    """The network in QDQ form, calibrated on the pictures x (N, C, H, W).

    graph, parameters: in float32, with batch-norms folded. ranges: one of METHODS. per_channel: whether each output
    channel of a weight has a scale of its own. equalize: whether to scale channels between convolutions first
    (equalization.equalized). in_float: names of layers that stay in float32 (sensitivity.choose). dtype: of
    activations, "int8" or "uint8". weight_bits: 8, or 7 for ONNX Runtime on x86 processors without VNNI, which add two
    products in 16 bits.

    ValueError for no pictures or another shape, another method or type, an unknown layer, a network that is quantized
    already, and numbers that are not finite.
    """
    check(graph, x)
    if equalize:
        parameters = equalized(graph, parameters, x)
    grids = calibrated(graph, parameters, x, ranges, dtype)
    return with_grids(graph, parameters, grids, per_channel=per_channel, in_float=in_float, weight_bits=weight_bits)


def check(graph: Graph, x: np.ndarray) -> None:
    """Raise ValueError unless the graph can be quantized with the calibration pictures x."""
    if graph.grids or any(isinstance(layer, Quantize | Dequantize) for layer in graph):
        raise ValueError("graph must be in float32, got one that is quantized already")
    if graph.more_inputs or graph.more_outputs:
        raise ValueError(f"graph must have one input and one output, got {len(graph.inputs)} and {len(graph.outputs)}")
    shape = tuple(np.shape(x))
    if len(shape) != len(graph.input_shape) or shape[1:] != graph.input_shape[1:] or shape[0] < 1:
        wanted = ", ".join(map(str, graph.input_shape[1:]))
        raise ValueError(f"x must be calibration pictures of shape (N, {wanted}), N at least 1, got {shape}")
