"""Ranges: bounds on every tensor of a network, from its weights, biases and clamps; interval arithmetic per channel.

    found = ranges(graph, parameters, input_bound=2.7)
    found["features.3.output"].bound        no element is larger in magnitude, whatever the input within its bound
    found["features.3.output"].fits_halves  whether three products of halves are as good as fp32 for it

A convolution's output lies within bias + Σ w·(the end of its input's interval that makes w·x least or greatest). A
ReLU6 ends what has grown before it. In a network without clamps the intervals grow with every layer, soon far beyond
what numbers are really there. So a Range also has the size that elements typically have, estimated as if inputs of a
sum were independent, and intervals that are much wider than that are of no use.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels.pair_of_halves import scale_of
from ..topology import layers as kinds
from ..topology.graph import Graph
from .registry import layers_of

# How much wider than typical a bound may be. Scaled by scale_of(bound), a number of typical size is then 4 or more, and
# high + low in include/pair_of_halves.h has all its bits from 1/16 of that on; what is lost below is 2^-27 of it.
WIDEST = 2.0**12


@dataclass(frozen=True, eq=False)
class Range:
    """low, high: float64, one per channel (dimension 1) or one for all. typical: the estimated root mean square."""

    low: np.ndarray
    high: np.ndarray
    typical: float

    @classmethod
    def of(cls, low: Any, high: Any, typical: float) -> "Range":
        """From numbers or arrays; typical is at most the bound."""
        low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in (low, high))
        made = cls(low, high, typical)
        return replace(made, typical=min(typical, made.bound))

    @property
    def bound(self) -> float:
        """The largest magnitude that an element can have; infinite if nothing bounds it."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(low, high)"""
        return self.low, self.high

    @property
    def known(self) -> bool:
        """Whether there is a finite bound."""
        return math.isfinite(self.bound)

    @property
    def fits_halves(self) -> bool:
        """Whether the bound is finite, within scale_of, and at most WIDEST times the typical size."""
        return self.known and 0 < self.bound <= min(WIDEST * self.typical, 2.0**60)

    @property
    def scale(self) -> float:
        """The power of two for include/pair_of_halves.h. ValueError if there is no bound."""
        return scale_of(self.bound)

    def united(self, low: float, high: float) -> "Range":
        """With the interval from low to high added to each."""
        return Range.of(np.minimum(self.low, low), np.maximum(self.high, high), self.typical)

    def collapsed(self) -> "Range":
        """One interval for all channels."""
        return Range.of(self.low.min(), self.high.max(), self.typical)

    def repeated(self, count: int) -> "Range":
        """With `count` intervals: each of the channels' as often as it takes."""
        if count % len(self.low):
            return Range.of(np.full(count, self.low.min()), np.full(count, self.high.max()), self.typical)
        low, high = (np.repeat(end, count // len(end)) for end in (self.low, self.high))
        return Range.of(low, high, self.typical)


UNKNOWN = Range.of(-math.inf, math.inf, 1.0)


def ranges(graph: Graph, parameters: Mapping[str, Any], input_bound: float | None = None) -> dict[str, Range]:
    """The Range of each tensor of a graph of layers or steps, by name, also of those within steps.

    parameters: NumPy arrays by name. input_bound: on the magnitudes of the network's inputs; None: they have none, and
    their typical size is that of normalised pictures, 1. Holds for inputs of any height, width and batch.
    """
    known = UNKNOWN if input_bound is None else Range.of(-input_bound, input_bound, 1.0)
    found = dict.fromkeys(graph.inputs, known)
    for layer in layers_of(graph):
        rule = RULES.get(type(layer))
        with np.errstate(over="ignore", invalid="ignore"):
            made = rule(layer, [found[name] for name in layer.inputs], parameters) if rule else UNKNOWN
        found[layer.output] = UNKNOWN if np.isnan(made.low).any() or np.isnan(made.high).any() else made
    return found


# ---- Sums of products


def _sums(x: Range, weight: np.ndarray, bias: Any) -> Range:
    """Of Σ w·x + bias. weight: (groups, O / groups, I / groups, taps); x: of all I inputs or of one for all."""
    groups, _, channels, _ = weight.shape
    if not x.known:
        return UNKNOWN
    low, high = (end.reshape(groups, channels, 1) for end in x.repeated(groups * channels).ends)
    positive, negative = np.maximum(weight, 0).sum(3), np.minimum(weight, 0).sum(3)  # of the taps
    shift = np.zeros(1) if bias is None else np.asarray(bias, np.float64)
    squares = np.square(weight).sum((2, 3)).mean()
    return Range.of(
        (positive @ low + negative @ high).ravel() + shift, (positive @ high + negative @ low).ravel() + shift,
        math.sqrt(squares * x.typical**2 + np.square(shift).mean()),
    )  # fmt: skip


def _conv2d(layer: Any, inputs: list[Range], p: Mapping[str, Any]) -> Range:
    weight = np.asarray(p[layer.weight], np.float64)
    grouped = weight.reshape(layer.groups, -1, weight.shape[1], math.prod(layer.kernel_size))
    return _sums(inputs[0].united(0, 0), grouped, p[layer.bias] if layer.bias else None)  # zeros around the input


def _conv_transpose2d(layer: Any, inputs: list[Range], p: Mapping[str, Any]) -> Range:
    weight = np.asarray(p[layer.weight], np.float64)  # (I, O / groups, kH, kW)
    grouped = weight.reshape(layer.groups, -1, weight.shape[1], math.prod(layer.kernel_size)).swapaxes(1, 2)
    return _sums(inputs[0].united(0, 0), grouped, p[layer.bias] if layer.bias else None)  # zeros around the input


def _linear(layer: Any, inputs: list[Range], p: Mapping[str, Any]) -> Range:
    weight = np.asarray(p[layer.weight], np.float64)
    return _sums(inputs[0], weight[None, :, :, None], p[layer.bias] if layer.bias else None)


def _batch_norm(layer: Any, inputs: list[Range], p: Mapping[str, Any]) -> Range:
    gamma, beta, mean, variance = (
        np.asarray(p[name], np.float64) for name in (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    )
    scale = gamma / np.sqrt(variance + layer.eps)
    ends = [end * scale + beta - mean * scale for end in (inputs[0].low, inputs[0].high)]
    typical = math.sqrt(np.mean(np.square(scale)) * inputs[0].typical ** 2 + np.mean(np.square(beta - mean * scale)))
    return Range.of(np.minimum(*ends), np.maximum(*ends), typical)


def _layer_norm(layer: Any, inputs: list[Range], p: Mapping[str, Any]) -> Range:
    """|x − mean| / deviation of n numbers is at most √(n − 1)."""
    if layer.dim != 1:
        return UNKNOWN  # as many numbers as the input is high or wide
    scale = np.abs(np.asarray(p[layer.weight], np.float64)) if layer.weight else np.ones(1)
    shift = np.asarray(p[layer.bias], np.float64) if layer.bias else np.zeros(1)
    reach = scale * math.sqrt(layer.channels - 1)
    return Range.of(shift - reach, shift + reach, math.sqrt(np.mean(np.square(scale)) + np.mean(np.square(shift))))


# ---- Element by element


def _clipped(x: Range, low: float, high: float) -> Range:
    return Range.of(np.clip(x.low, low, high), np.clip(x.high, low, high), x.typical)


def _bent(x: Range, function: Callable[[np.ndarray], np.ndarray]) -> Range:
    """Of a function that is monotone on each side of 0."""
    middle = np.clip(0.0, x.low, x.high)
    ends = np.stack([function(one) for one in (x.low, middle, x.high)])
    return Range.of(ends.min(0), ends.max(0), x.typical)


def _elu(layer: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(x < 0, layer.alpha * np.expm1(np.minimum(x, 0)), x)


def _sigmoid_weighted(x: Range) -> Range:
    """Of x · (a number from 0 to 1 that grows with x): HardSwish and GELU, which reach down to −0.375 and −0.171."""
    return Range.of(np.maximum(np.minimum(x.low, 0), -0.375), np.maximum(x.high, 0), x.typical)


def _products(a: Range, b: Range) -> Range:
    ends = np.stack([one * other for one in (a.low, a.high) for other in (b.low, b.high)])
    return Range.of(ends.min(0), ends.max(0), a.typical * b.typical)


def _added(a: Range, b: Range, sign: int = 1) -> Range:
    low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    return Range.of(a.low + low, a.high + high, math.hypot(a.typical, b.typical))


def _concat(layer: Any, inputs: list[Range]) -> Range:
    typical = math.sqrt(np.mean([x.typical**2 for x in inputs]))
    if layer.dim != 1:
        return Range.of(min(x.low.min() for x in inputs), max(x.high.max() for x in inputs), typical)
    every = [x.repeated(shape[1]) for x, shape in zip(inputs, layer.input_shapes, strict=True)]
    return Range.of(np.concatenate([x.low for x in every]), np.concatenate([x.high for x in every]), typical)


def _moved(layer: Any, x: Range) -> Range:
    """Of a reshape: the same, if dimension 1 stays."""
    return x if layer.output_shape[1] == layer.input_shapes[0][1] else x.collapsed()


# layer, the Ranges of its inputs, parameters → the Range of its output. Layers that are not here are UNKNOWN: GroupNorm
# and Div, and those of other modules.
Rule = Callable[[Any, list[Range], Mapping[str, Any]], Range]
RULES: dict[type, Rule] = {
    kinds.Conv2d: _conv2d,
    kinds.ConvTranspose2d: _conv_transpose2d,
    kinds.Linear: _linear,
    kinds.BatchNorm2d: _batch_norm,
    kinds.LayerNorm: _layer_norm,
    kinds.ReLU6: lambda layer, x, p: _clipped(x[0], 0, 6),
    kinds.ReLU: lambda layer, x, p: _clipped(x[0], 0, math.inf),
    kinds.Clip: lambda layer, x, p: _clipped(x[0], layer.min, layer.max),
    kinds.Sigmoid: lambda layer, x, p: Range.of(0, 1, 1.0),
    kinds.HardSigmoid: lambda layer, x, p: Range.of(0, 1, 1.0),
    kinds.Softmax: lambda layer, x, p: Range.of(0, 1, 1.0),
    kinds.Tanh: lambda layer, x, p: Range.of(-1, 1, 1.0),
    kinds.Erf: lambda layer, x, p: Range.of(-1, 1, 1.0),
    kinds.Sqrt: lambda layer, x, p: _bent(_clipped(x[0], 0, math.inf), np.sqrt),
    kinds.LeakyReLU: lambda layer, x, p: _bent(x[0], lambda v: np.where(v < 0, layer.alpha * v, v)),
    kinds.ELU: lambda layer, x, p: _bent(x[0], _elu(layer)),
    kinds.HardSwish: lambda layer, x, p: _sigmoid_weighted(x[0]),
    kinds.GELU: lambda layer, x, p: _sigmoid_weighted(x[0]),
    kinds.ResidualAdd: lambda layer, x, p: _added(x[0], x[1]),
    kinds.Add: lambda layer, x, p: _added(x[0], x[1]),
    kinds.Sub: lambda layer, x, p: _added(x[0], x[1], sign=-1),
    kinds.Mul: lambda layer, x, p: _products(x[0], x[1]),
    kinds.Maximum: lambda layer, x, p: Range.of(
        np.maximum(x[0].low, x[1].low), np.maximum(x[0].high, x[1].high), max(x[0].typical, x[1].typical)
    ),
    kinds.Minimum: lambda layer, x, p: Range.of(
        np.minimum(x[0].low, x[1].low), np.minimum(x[0].high, x[1].high), max(x[0].typical, x[1].typical)
    ),
    kinds.Concat: lambda layer, x, p: _concat(layer, x),
    kinds.GlobalAveragePool: lambda layer, x, p: x[0],
    kinds.AveragePool2d: lambda layer, x, p: x[0].united(0, 0),  # with the padding's zeros, if those count
    kinds.MaxPool2d: lambda layer, x, p: x[0],
    kinds.Mean: lambda layer, x, p: x[0].collapsed() if layer.dim == 1 else x[0],
    kinds.Resize: lambda layer, x, p: x[0],  # weights of a mean
    kinds.Pad: lambda layer, x, p: x[0].united(layer.value, layer.value),
    kinds.Slice: lambda layer, x, p: x[0].collapsed(),
    kinds.Permute: lambda layer, x, p: x[0].collapsed(),
    kinds.ChannelShuffle: lambda layer, x, p: x[0].collapsed(),
    kinds.Reshape: lambda layer, x, p: _moved(layer, x[0]),
}
