"""The rules that turn quantized layers into integer steps: fusions of Dequantize … Quantize around one operator.

    x codes → Dequantize → Conv2d → ReLU6 → Quantize → y codes      is one step, "integer-conv"

A model in QDQ form says what is to be computed in real numbers: dequantize, convolve, quantize. A step computes the
same from the codes, in the arithmetic of common.kernels.int8: exact sums of integers, one multiplication, one rounding.
An activation is the clamp of the result to codes. Each rule calls one operator of OPERATORS, which another function
with the same arguments may replace; this is where the int8 kernels come in.

All codes between steps are int8; those of a uint8 grid are stored 128 lower.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .. import topology
from ..kernels import int8, one_step
from ..network.reference import run_layer
from ..network.registry import Cost, Fusion, Match, Part, Step, register
from ..network.steps import activation_of
from ..topology import Grid
from ..topology import layers as kinds

SHIFT = {"uint8": 128, "int8": 0}  # what is subtracted from a stored code

CLAMPS = (kinds.ReLU, kinds.ReLU6, kinds.Clip)
FUNCTIONS = (
    *CLAMPS, kinds.Sigmoid, kinds.HardSigmoid, kinds.HardSwish, kinds.Tanh, kinds.LeakyReLU, kinds.ELU, kinds.GELU,
    kinds.Erf, kinds.Sqrt,
)  # fmt: skip
MOVES = (
    kinds.MaxPool2d, kinds.Reshape, kinds.Permute, kinds.Slice, kinds.ChannelShuffle, kinds.Concat, kinds.Pad,
)  # fmt: skip


def int8_grid(grid: Grid) -> Grid:
    """The grid of the same numbers with int8 codes: of a uint8 grid all codes are 128 lower."""
    shift = SHIFT[grid.dtype]
    return Grid(grid.scale, tuple(point - shift for point in grid.zero_point), "int8")


def requantize_table(source: Grid, target: Grid, function: kinds.Layer | None = None) -> np.ndarray:
    """(256,) int8: the code on `target` of function(value), for each code of `source` from −128 on; grids of int8."""
    values = source.values(np.arange(-128, 128, dtype=np.int8))
    if function is not None:
        import torch

        one = replace(function, input_shapes=((1, 256),))
        values = run_layer(one, [torch.from_numpy(values[None])], {}).numpy()[0]
    return target.codes(values)


def look_up(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """table[x + 128] for codes x of int8, in the shape of x."""
    return table[x.astype(np.int16) + 128]


def move(*inputs: np.ndarray, layer: kinds.Layer, tables: Sequence[np.ndarray | None]) -> np.ndarray:
    """The layer's output for arrays of codes, each looked up in its table first, if it has one. By PyTorch."""
    import torch

    codes = [x if table is None else look_up(x, table) for x, table in zip(inputs, tables, strict=True)]
    tensors = [torch.from_numpy(one.astype(np.float32)) for one in codes]  # float32 has every code
    return run_layer(layer, tensors, {}).numpy().astype(np.int8)


def add(a: np.ndarray, b: np.ndarray, scales: int8.Scales, *, bounds: tuple[int, int], offset: int = 0) -> np.ndarray:
    """int8.add of codes that broadcast. bounds: (low, high) of the result. offset: 128 of a uint8 model, else 0."""
    return int8.add(a, b, scales, *bounds, offset)


def add_scales(a: Grid, b: Grid, y: Grid) -> int8.Scales:
    """(scale_a, scale_b, shift) of y = a + b, each operation in float32 as ONNX Runtime's."""
    scale_a, scale_b = (np.float32(x.scale[0]) / np.float32(y.scale[0]) for x in (a, b))
    zero_a, zero_b, zero_y = (np.float32(x.zero_point[0]) for x in (a, b, y))
    shift = zero_y - int8.fma(scale_a, zero_a, scale_b * zero_b)
    return float(scale_a), float(scale_b), float(shift)


def multiply(
    a: np.ndarray, b: np.ndarray, multiplier: float, *, zero_points: tuple[int, int], zero_point: int,
    bounds: tuple[int, int],
) -> np.ndarray:  # fmt: skip
    """clamp(round((a − z_a)·(b − z_b)·multiplier) + zero_point) of int8 arrays that broadcast; zero_points: of a, b."""
    first, second = (x.astype(np.int32) - np.int32(z) for x, z in zip((a, b), zero_points, strict=True))
    return int8.requantize(first * second, multiplier, zero_point, *bounds)


def linear(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: Any, *, zero_point: int, bounds: tuple[int, int]
) -> np.ndarray:
    """requantize(x · weightᵀ + bias): x (N, …) int8, weight (O, K), bias (O,) int32; (N, O) int8."""
    return int8.requantize(int8.linear_accumulate(x.reshape(len(x), -1), weight, bias), multiplier, zero_point, *bounds)


def conv2d_to_float(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: Any, **geometry: Any
) -> np.ndarray:
    """int8.accumulate(…) · multiplier, (N, O, oH, oW) float32: a convolution whose output is not quantized."""
    return int8.scaled(int8.accumulate(x, weight, bias, **geometry), multiplier)


def linear_to_float(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, multiplier: Any) -> np.ndarray:
    """(x · weightᵀ + bias) · multiplier, x (N, …) int8; (N, O) float32: the logits of a last layer."""
    return int8.scaled(int8.linear_accumulate(x.reshape(len(x), -1), weight, bias), multiplier)


# What the rules call: functions of NumPy arrays, of common.kernels.int8 where there is one.
OPERATORS: Mapping[str, Callable[..., np.ndarray]] = {
    "quantize": int8.quantize,
    "dequantize": int8.dequantize,
    "conv2d": int8.conv2d,
    "conv2d_to_float": conv2d_to_float,
    "linear": linear,
    "linear_to_float": linear_to_float,
    "add": add,
    "multiply": multiply,
    "global_avg_pool": int8.global_avg_pool,
    "avg_pool2d": int8.avg_pool2d,
    "move": move,
    "look_up": look_up,
}


class Call:
    """A step's call: the operator's name, and its arguments after the arrays of codes."""

    def __init__(self, operator: str, *args: Any, **named: Any) -> None:
        self.operator, self.args, self.named = operator, args, named

    def __call__(self, operators: Mapping[str, Callable[..., Any]], inputs: Sequence[Any]) -> Any:
        """The output for the input arrays, by one of the operators."""
        return operators[self.operator](*inputs, *self.args, **self.named)


def in_one_step(call: Call) -> Call:
    """The call of a product whose multipliers have moved to those of one fma (kernels.one_step.nearest).

    A few sums then get a neighbouring code. A call of another operator, one that ends in floats, and one of int16
    weights is returned as it is.
    """
    if call.operator not in ("conv2d", "linear") or call.args[0].dtype != np.int8:
        return call
    weight, bias, multiplier = call.args
    moved = one_step.nearest(weight, bias, multiplier, call.named["zero_point"])
    return Call(call.operator, weight, bias, moved, **call.named)


def integer_cost(step: Step) -> Cost:
    """The bytes and FLOPs of a step that reads codes, or floats to quantize: a byte per code and weight, 4 per float.

    Of a product's output channel 8 bytes more, of its bias and its multiplier.
    """
    floats = {name for layer in step.layers if isinstance(layer, kinds.Quantize) for name in layer.inputs}
    shapes = dict(zip(step.inputs, step.input_shapes, strict=True))
    read = sum(math.prod(shape) * (4 if name in floats else 1) for name, shape in shapes.items())
    written = math.prod(step.output_shape) * (1 if isinstance(step.layers[-1], kinds.Quantize) else 4)
    weights = 0
    for layer in step.layers:
        if isinstance(layer, kinds.Conv2d | kinds.Linear):
            shape = layer.parameter_shapes[layer.weight]
            weights += math.prod(shape) + 8 * shape[0]
    return Cost(read + written + weights, 2 * step.macs)


class Rule(Fusion):
    """A rule. Its step's layers are the Dequantize layers of the inputs, the operator, an activation, a Quantize."""

    main: ClassVar[str]  # the part that is the operator

    def build(self, match: Match) -> kinds.Layer | str:
        writers = {layer.output: layer for layer in match.graph}
        sources = [writers.get(name) for name in match[self.main].inputs]
        if not all(isinstance(source, kinds.Dequantize) for source in sources):
            return "an input is not quantized"
        if reason := self.problem(match):
            return reason
        before = [source for source in dict.fromkeys(sources) if source is not None]
        return Step.of(*before, *match.nodes, fusion=self, parts=match.parts)

    def problem(self, match: Match) -> str | None:
        """Why a match is not computed in integers, in words; None if it is."""
        return None

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        """The call that computes the step. grids: of parameters."""
        raise NotImplementedError

    @staticmethod
    def stored_grids(step: Step, main: kinds.Layer) -> list[Grid]:
        """The grid of each input of the layer `main` of the step, as in the file."""
        written = {layer.output: layer.grid for layer in step.layers if isinstance(layer, kinds.Dequantize)}
        return [written[name] for name in main.inputs]

    def input_grids(self, step: Step, main: kinds.Layer) -> list[Grid]:
        """The same, of the int8 codes."""
        return [int8_grid(grid) for grid in self.stored_grids(step, main)]

    @staticmethod
    def output_grid(step: Step) -> Grid | None:
        """The int8 grid of the step's output; None if that is float."""
        last = step.layers[-1]
        return int8_grid(last.grid) if isinstance(last, kinds.Quantize) else None

    @staticmethod
    def clamp(step: Step, grid: Grid) -> tuple[int, int]:
        """(lowest, highest) code of the step's activation on its output's grid."""
        return int8.bounds(activation_of(step.parts.get("activation")), grid.scale[0], grid.zero_point[0])

    def cost(self, step: Step, itemsize: int) -> Cost:
        return integer_cost(step)

    def codes_read(self, step: Step) -> tuple[str, ...]:
        """The tensors of codes that the operator reads, in its order; one may stand there twice."""
        codes = {layer.output: layer.inputs[0] for layer in step.layers if isinstance(layer, kinds.Dequantize)}
        return tuple(codes[name] for name in step.parts[self.main].inputs)


class _Product(Rule):
    """Convolutions and linear layers: weights and bias as integers, one multiplier per output channel."""

    def problem(self, match: Match) -> str | None:
        layer: Any = match[self.main]
        if layer.weight not in dict(match.graph.grids):
            return "its weight is not quantized"
        if match["activation"] is not None and match["quantize"] is None:
            return "its activation's output is not quantized"
        return None

    def operands(
        self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Grid, Grid | None]:
        """(weight − its zero point, bias with the input's zero point folded in, multiplier, input grid, output grid).

        The weight is int8, or int16 if it is not symmetric. The multiplier is scale_x · scale_w / scale_y.
        UnsupportedModel for sums that could overflow int32.
        """
        layer: Any = step.parts[self.main]
        (x,), y, grid = self.input_grids(step, layer), self.output_grid(step), grids[layer.weight]
        codes = grid.codes(parameters[layer.weight]).astype(np.int16)
        weight = codes - np.array(grid.zero_point, np.int16).reshape((-1,) + (1,) * (codes.ndim - 1))
        if weight.min() >= -128 and weight.max() <= 127:
            weight = weight.astype(np.int8)
        scale = np.broadcast_to(np.float32(x.scale[0]) * np.array(grid.scale, np.float32), len(weight))
        bias = np.zeros(len(weight), np.int64)
        if layer.bias is not None:
            bias = np.rint(parameters[layer.bias].astype(np.float64) / scale).clip(-(2**31), 2**31 - 1).astype(np.int64)
        try:
            folded = int8.fold_zero_point(weight, bias, x.zero_point[0])  # type: ignore[arg-type]
        except ValueError as error:
            raise topology.UnsupportedModel(f"layer '{layer.name}': {error}") from None
        multiplier = np.ascontiguousarray(scale if y is None else scale / np.float32(y.scale[0]), np.float32)
        return weight, folded, multiplier, x, y


ACTIVATION = Part("activation", CLAMPS, optional=True)
QUANTIZE = Part("quantize", kinds.Quantize)


@register
class IntegerConv(_Product):
    """A convolution of codes, with its activation; its output is codes, or float if nothing quantizes it."""

    name, main = "integer-conv", "conv"
    pattern = (Part("conv", kinds.Conv2d), ACTIVATION, Part("quantize", kinds.Quantize, optional=True))

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        layer: Any = step.parts[self.main]
        weight, bias, multiplier, x, y = self.operands(step, parameters, grids)
        geometry = {
            "stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups,
            "input_zero_point": x.zero_point[0],
        }  # fmt: skip
        if y is None:
            return Call("conv2d_to_float", weight, bias, multiplier, **geometry)
        to = {"zero_point": y.zero_point[0], "bounds": self.clamp(step, y)}
        return Call("conv2d", weight, bias, multiplier, **to, **geometry)


@register
class IntegerLinear(_Product):
    """A linear layer of codes, with its activation; its output is codes, or float if nothing quantizes it."""

    name, main = "integer-linear", "linear"
    pattern = (Part("linear", kinds.Linear), ACTIVATION, Part("quantize", kinds.Quantize, optional=True))

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        weight, bias, multiplier, _, y = self.operands(step, parameters, grids)
        if y is None:
            return Call("linear_to_float", weight, bias, multiplier)
        return Call("linear", weight, bias, multiplier, zero_point=y.zero_point[0], bounds=self.clamp(step, y))


@register
class IntegerAdd(Rule):
    """A sum of two tensors of codes, each with a scale of its own, with its activation."""

    name, main, in_place = "integer-add", "add", True
    pattern = (Part("add", (kinds.ResidualAdd, kinds.Add)), ACTIVATION, QUANTIZE)

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        last, y = step.parts["quantize"], self.output_grid(step)
        assert y is not None and isinstance(last, kinds.Quantize)
        stored = [*self.stored_grids(step, step.parts[self.main]), last.grid]
        if len({grid.dtype for grid in stored}) > 1:
            stored = [int8_grid(grid) for grid in stored]
        offset = SHIFT[stored[-1].dtype]
        return Call("add", add_scales(*stored), bounds=self.clamp(step, y), offset=offset)


@register
class IntegerMultiply(Rule):
    """A product of two tensors of codes, with its activation."""

    name, main = "integer-multiply", "multiply"
    pattern = (Part("multiply", kinds.Mul), ACTIVATION, QUANTIZE)

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        (a, b), y = self.input_grids(step, step.parts[self.main]), self.output_grid(step)
        assert y is not None
        multiplier = np.float32(a.scale[0]) * np.float32(b.scale[0]) / np.float32(y.scale[0])
        return Call(
            "multiply", float(multiplier), zero_points=(a.zero_point[0], b.zero_point[0]), zero_point=y.zero_point[0],
            bounds=self.clamp(step, y),
        )  # fmt: skip


@register
class IntegerMean(Rule):
    """A mean of codes over windows, or over the whole image.

    A mean of few codes is often a half, which rounds to even. ONNX Runtime adds float32 numbers, whose errors decide
    these cases: about 1 % of the means over windows are a step off, and between its own optimization levels, too.
    """

    name, main = "integer-mean", "pool"
    pattern = (Part("pool", (kinds.GlobalAveragePool, kinds.AveragePool2d)), QUANTIZE)

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        pool: Any = step.parts[self.main]
        (x,), y = self.input_grids(step, pool), self.output_grid(step)
        assert y is not None
        multiplier = float(np.float32(x.scale[0]) / np.float32(y.scale[0]))
        points = {"input_zero_point": x.zero_point[0], "zero_point": y.zero_point[0]}
        if isinstance(pool, kinds.GlobalAveragePool):
            return Call("global_avg_pool", multiplier, **points)
        window = {
            "stride": pool.stride, "padding": pool.padding, "ceil_mode": pool.ceil_mode,
            "count_include_pad": pool.count_include_pad,
        }  # fmt: skip
        return Call("avg_pool2d", pool.kernel_size, multiplier, **window, **points)


@register
class IntegerMove(Rule):
    """A layer that computes no new number: it runs on codes, which a table puts on the output's grid first."""

    name, main = "integer-move", "move"
    pattern = (Part("move", MOVES), QUANTIZE)

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        layer, y = step.parts[self.main], self.output_grid(step)
        assert y is not None
        if isinstance(layer, kinds.Pad):
            layer = replace(layer, value=float(y.codes(np.array([layer.value], np.float32))[0]))
        tables = [None if x == y else requantize_table(x, y) for x in self.input_grids(step, layer)]
        return Call("move", layer=layer, tables=tables)


@register
class IntegerFunction(Rule):
    """A function of single numbers: a table of 256 codes."""

    name, main = "integer-function", "function"
    pattern = (Part("function", FUNCTIONS), QUANTIZE)

    def call(self, step: Step, parameters: Mapping[str, np.ndarray], grids: Mapping[str, Grid]) -> Call:
        layer = step.parts[self.main]
        (x,), y = self.input_grids(step, layer), self.output_grid(step)
        assert y is not None
        return Call("look_up", requantize_table(x, y, layer))


RULES = (
    IntegerConv.name, IntegerLinear.name, IntegerAdd.name, IntegerMultiply.name, IntegerMean.name, IntegerMove.name,
    IntegerFunction.name,
)  # fmt: skip
