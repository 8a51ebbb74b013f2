"""The operators of common.topology's layers: one entry per type of layer, with its implementation on each backend.

A new operator can have its layer, its ONNX reader and its kernel in one file, tests/network/celu.py for example;
importing that file registers it.
"""

import math
from typing import Any, ClassVar

import numpy as np

from .. import cuda, kernels
from ..cuda import layout as layouts
from ..cuda.checks import bounds
from ..topology import layers as kinds
from .registry import Arrays, Cost, Operator, Step, register
from .steps import activation_of

# Methods are as documented in registry.Operator. `cudnn = kernels`: cuDNN would gain nothing, so the operator of
# common.kernels runs the layer on backend "cudnn" as well; `run.run` of both backends takes its arguments.


@register
class Conv2d(Operator):
    """A convolution: "depthwise", "pointwise" or "conv2d" of common.kernels, with the step's epilogue."""

    layer = kinds.Conv2d

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer, operator = step.layer, kernel_of(step.layer)
        geometry: dict[str, Any] = {}
        if operator != "pointwise":
            geometry = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation}
        if operator == "conv2d":
            geometry["groups"] = layer.groups
        return run.run(
            operator, arrays.x, *run.weights(layer), **geometry, residual=arrays.residual, activation=step.activation,
            out=arrays.out, **run.products(operator, layer),
        )  # fmt: skip

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        layer = step.layer
        return run.convolution(
            arrays.x, *run.weights(layer), layer.stride, layer.padding, layer.dilation, layer.groups,
            residual=arrays.residual, activation=step.activation, out=arrays.out,
        )  # fmt: skip

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        F, x = _functional(), inputs[0]
        bias = p[layer.bias] if layer.bias else None
        x = F.pad(x, _sides(layer.padding))
        return F.conv2d(x, p[layer.weight], bias, layer.stride, 0, layer.dilation, layer.groups)

    def terms(self, layer: Any) -> int:
        return layer.in_channels // layer.groups * math.prod(layer.kernel_size)


@register
class ConvTranspose2d(Operator):
    """A transposed convolution, with the step's epilogue."""

    layer = kinds.ConvTranspose2d

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        return run.run(
            "conv_transpose2d", arrays.x, *run.weights(layer), layer.stride, layer.padding, layer.output_padding,
            layer.groups, layer.dilation, residual=arrays.residual, activation=step.activation, out=arrays.out,
        )  # fmt: skip

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        F, x = _functional(), inputs[0]
        (top, bottom), (left, right) = layer.padding
        bias = p[layer.bias] if layer.bias else None
        whole = F.conv_transpose2d(
            x, p[layer.weight], bias, layer.stride, 0, layer.output_padding, layer.groups, layer.dilation
        )
        rows, columns = whole.shape[2:]
        return whole[:, :, top : rows - bottom, left : columns - right]

    def terms(self, layer: Any) -> int:
        return layer.in_channels // layer.groups * math.prod(layer.kernel_size)


def kernel_of(layer: kinds.Conv2d) -> str:
    """The operator of common.kernels that computes a convolution: "depthwise", "pointwise" or "conv2d"."""
    if layer.groups == layer.in_channels == layer.out_channels:
        return "depthwise"
    plain = layer.kernel_size == layer.stride == (1, 1) and layer.padding == ((0, 0), (0, 0)) and layer.groups == 1
    return "pointwise" if plain else "conv2d"


@register
class BatchNorm2d(Operator):
    """A batch-norm that could not be folded: a 1×1 depthwise convolution by scale and shift."""

    layer = kinds.BatchNorm2d

    def prepare(self, layer: Any, parameters: Any) -> dict[str, np.ndarray]:
        names = (layer.weight, layer.bias, layer.running_mean, layer.running_var)  # two of which may be the same
        gamma, beta, mean, variance = (parameters[name].astype(np.float64) for name in names)
        scale = gamma / np.sqrt(variance + layer.eps)
        shift = beta - mean * scale
        return {
            f"{layer.name}/scale": scale.astype(np.float32).reshape(-1, 1, 1, 1),
            f"{layer.name}/shift": shift.astype(np.float32),
        }

    @staticmethod
    def _operands(run: Any, step: Step, arrays: Arrays) -> tuple[list[Any], tuple[Any, Any]]:
        """((x, residual, out) as (N, C, H, W), (scale, shift)); x may have any number of dimensions from 2 on."""
        n, c, *extent = arrays.x.shape
        shape = (n, c, *extent) if len(extent) == 2 else (n, c, math.prod(extent), 1)
        given = (arrays.x, arrays.residual, arrays.out)
        pictures = [a.reshape(shape) if a is not None and a.ndim != 4 else a for a in given]
        return pictures, (run.parameters[f"{step.layer.name}/scale"], run.parameters[f"{step.layer.name}/shift"])

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        (x, residual, out), scale_shift = self._operands(run, step, arrays)
        return run.run("depthwise", x, *scale_shift, residual=residual, activation=step.activation, out=out)

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        (x, residual, out), scale_shift = self._operands(run, step, arrays)
        return run.convolution(
            x, *scale_shift, groups=x.shape[1], activation=step.activation, residual=residual, out=out
        )

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        x = inputs[0]  # written out, as older versions of F.batch_norm refuse an eps of 0
        per_channel = (1, -1) + (1,) * (x.dim() - 2)
        mean, variance, gamma, beta = (
            p[name].reshape(per_channel) for name in (layer.running_mean, layer.running_var, layer.weight, layer.bias)
        )
        return (x - mean) / (variance + layer.eps).sqrt() * gamma + beta


class _Norm(Operator):
    """Normalisation by statistics of the input, then weight and bias, each of which may be missing."""

    @staticmethod
    def _affine(layer: Any, parameters: Any) -> tuple[Any, Any]:
        return tuple(None if name is None else parameters[name] for name in (layer.weight, layer.bias))  # type: ignore


@register
class LayerNorm(_Norm):
    """Normalisation along layer.dim."""

    layer = kinds.LayerNorm

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        affine = self._affine(layer, run.parameters)
        return run.run("layer_norm", arrays.x, *affine, layer.dim, layer.eps, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        x = inputs[0].movedim(layer.dim, -1)
        normalized = _functional().layer_norm(x, x.shape[-1:], *self._affine(layer, p), layer.eps)
        return normalized.movedim(-1, layer.dim)

    def terms(self, layer: Any) -> int:
        return layer.channels


@register
class GroupNorm(_Norm):
    """Normalisation of groups of channels over all pixels."""

    layer = kinds.GroupNorm

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        affine = self._affine(layer, run.parameters)
        return run.run("group_norm", arrays.x, layer.num_groups, *affine, layer.eps, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().group_norm(inputs[0], layer.num_groups, *self._affine(layer, p), layer.eps)

    def terms(self, layer: Any) -> int:
        return math.prod(layer.output_shape[1:]) // layer.num_groups


@register
class Linear(Operator):
    """A fully connected layer: a matrix product of the flattened input."""

    layer = kinds.Linear

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer, (x, before) = step.layer, run.rows(arrays.x)
        return [
            *before,
            *run.run("gemm", x, *run.weights(layer), transpose_b=True, out=arrays.out, **run.products("gemm", layer)),
        ]

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        x, before = run.rows(arrays.x)
        return run.product(x, *run.weights(step.layer), arrays.out, before)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().linear(inputs[0].flatten(1), p[layer.weight], p[layer.bias] if layer.bias else None)

    def terms(self, layer: Any) -> int:
        return layer.in_features


# ---- Element by element


class _Clamp(Operator):
    """Activations that clamp to a range."""

    in_place = True

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("clamp", arrays.x, *map(float, bounds(activation_of(step.layer))), out=arrays.out)

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.clamp(arrays.x, *map(float, bounds(activation_of(step.layer))), arrays.out)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].clamp(*map(float, bounds(activation_of(layer))))


@register
class ReLU6(_Clamp):
    """min(max(x, 0), 6)."""

    layer = kinds.ReLU6


@register
class ReLU(_Clamp):
    """max(x, 0)."""

    layer = kinds.ReLU


@register
class Clip(_Clamp):
    """min(max(x, layer.min), layer.max)."""

    layer = kinds.Clip


class _Activation(Operator):
    """Activations of common.kernels.activate."""

    in_place = True
    function: ClassVar[str]  # its name for common.kernels.activate
    takes: ClassVar[tuple[str, ...]] = ()  # fields of the layer that are passed as arguments

    def arguments(self, layer: Any) -> tuple[str, dict[str, float]]:
        """(function, further arguments) of common.kernels.activate."""
        return self.function, {name: getattr(layer, name) for name in self.takes}

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        function, given = self.arguments(step.layer)
        return run.run("activate", arrays.x, function, **given, out=arrays.out)

    cudnn = kernels


@register
class Sigmoid(_Activation):
    """1 / (1 + exp(−x))."""

    layer, function = kinds.Sigmoid, "sigmoid"

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].sigmoid()


@register
class HardSigmoid(_Activation):
    """min(max(α·x + β, 0), 1)."""

    layer, function, takes = kinds.HardSigmoid, "hardsigmoid", ("alpha", "beta")

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return (layer.alpha * inputs[0] + layer.beta).clamp(0, 1)


@register
class HardSwish(_Activation):
    """x · min(max(x + 3, 0), 6) / 6."""

    layer, function = kinds.HardSwish, "hardswish"

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().hardswish(inputs[0])


@register
class Tanh(_Activation):
    """tanh(x)."""

    layer, function = kinds.Tanh, "tanh"

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].tanh()


@register
class Erf(_Activation):
    """erf(x)."""

    layer, function = kinds.Erf, "erf"

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].erf()


@register
class Sqrt(_Activation):
    """√x."""

    layer, function = kinds.Sqrt, "sqrt"

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].sqrt()


@register
class LeakyReLU(_Activation):
    """x, or α·x where x < 0."""

    layer, function, takes = kinds.LeakyReLU, "leaky_relu", ("alpha",)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().leaky_relu(inputs[0], layer.alpha)


@register
class ELU(_Activation):
    """x, or α·(exp(x) − 1) where x < 0."""

    layer, function, takes = kinds.ELU, "elu", ("alpha",)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().elu(inputs[0], layer.alpha)


@register
class GELU(_Activation):
    """x · Φ(x), with Φ the normal distribution's, by erf or approximated by tanh."""

    layer = kinds.GELU

    def arguments(self, layer: Any) -> tuple[str, dict[str, float]]:
        return {"none": "gelu", "tanh": "gelu_tanh"}[layer.approximate], {}

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().gelu(inputs[0], approximate=layer.approximate)


@register
class ResidualAdd(Operator):
    """a + b, of equal shapes, where the addition is not a convolution's epilogue."""

    layer = kinds.ResidualAdd
    in_place = True

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("add", *arrays.inputs, out=arrays.out)

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.add(*arrays.inputs, arrays.out)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0] + inputs[1]


@register
class Mul(Operator):
    """a · b, as common.kernels.multiply broadcasts them."""

    layer = kinds.Mul
    in_place = True

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("multiply", *arrays.inputs, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0] * inputs[1]


class _Binary(Operator):
    """Functions of common.kernels.binary."""

    in_place = True
    function: ClassVar[str]  # its name for common.kernels.binary, and in PyTorch

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("binary", *arrays.inputs, self.function, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        import torch

        return getattr(torch, self.function)(*inputs)


@register
class Add(_Binary):
    """a + b of shapes that differ."""

    layer, function = kinds.Add, "add"


@register
class Sub(_Binary):
    """a − b."""

    layer, function = kinds.Sub, "subtract"


@register
class Div(_Binary):
    """a / b."""

    layer, function = kinds.Div, "divide"


@register
class Maximum(_Binary):
    """max(a, b)."""

    layer, function = kinds.Maximum, "maximum"


@register
class Minimum(_Binary):
    """min(a, b)."""

    layer, function = kinds.Minimum, "minimum"


# ---- Windows and sums


@register
class GlobalAveragePool(Operator):
    """The mean over height and width: (N, C, H, W) → (N, C, 1, 1)."""

    layer = kinds.GlobalAveragePool

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("global_avg_pool", arrays.x, out=arrays.out)

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.average(arrays.x, arrays.out)

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].mean((2, 3), keepdim=True)

    def terms(self, layer: Any) -> int:
        return math.prod(layer.input_shapes[0][2:])


@register
class Mean(Operator):
    """The mean along layer.dim."""

    layer = kinds.Mean

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("mean", arrays.x, step.layer.dim, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].mean(layer.dim, keepdim=True)

    def terms(self, layer: Any) -> int:
        return layer.input_shapes[0][layer.dim]


@register
class Resize(Operator):
    """The image in another size, by the nearest pixel or bilinear interpolation."""

    layer = kinds.Resize

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        return run.run(
            "resize", arrays.x, layer.size, mode=layer.mode, coordinates=layer.coordinates, rounding=layer.rounding,
            scales=layer.scales, out=arrays.out,
        )  # fmt: skip

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        """By index: torch.nn.functional.interpolate does not have all coordinates and roundings."""
        x = inputs[0]
        for axis in (2, 3):
            before, after = x.shape[axis], layer.size[axis - 2]
            at = _positions(layer, before, after, layer.scales[axis - 2] if layer.scales else after / before)
            if layer.mode == "nearest":
                nearest = _ROUNDING[layer.rounding](at).clip(0, before - 1).astype(np.int64)
                x = x.index_select(axis, _tensor(nearest, x))
                continue
            at = at.clip(0, before - 1)
            first = at.astype(np.int64)
            second = np.minimum(first + 1, before - 1)
            share = _tensor(at - first, x).to(x.dtype).reshape((-1,) + (1,) * (3 - axis))
            x = x.index_select(axis, _tensor(first, x)) * (1 - share) + x.index_select(axis, _tensor(second, x)) * share
        return x

    def terms(self, layer: Any) -> int:
        return 4 if layer.mode == "linear" else 1


_ROUNDING: dict[str, Any] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
}


def _positions(layer: Any, before: int, after: int, scale: float) -> np.ndarray:
    """The positions in the input of the pixels of an axis of Resize's output, in float32 as ONNX Runtime has them."""
    i, half = np.arange(after, dtype=np.float32), np.float32(0.5)
    if layer.coordinates == "align_corners":
        return i * np.float32(before - 1) / np.float32(max(after - 1, 1))
    if layer.coordinates == "asymmetric":
        return i / np.float32(scale)
    if layer.coordinates == "pytorch_half_pixel" and after == 1:
        return 0 * i
    return (i + half) / np.float32(scale) - half


@register
class MaxPool2d(Operator):
    """The maximum of each window; padding counts as −∞."""

    layer = kinds.MaxPool2d

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        return run.run(
            "pool2d", arrays.x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, kind="max",
            ceil_mode=layer.ceil_mode, out=arrays.out,
        )  # fmt: skip

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        F, sides = _functional(), _pool_sides(layer, inputs[0], layer.dilation)
        rows, columns = layer.output_shape[2:]
        padded = F.pad(inputs[0], _sides(sides), value=float("-inf"))
        return F.max_pool2d(padded, layer.kernel_size, layer.stride, 0, layer.dilation)[..., :rows, :columns]


@register
class AveragePool2d(Operator):
    """The mean of each window, with or without the padding (count_include_pad)."""

    layer = kinds.AveragePool2d

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        return run.run(
            "pool2d", arrays.x, layer.kernel_size, layer.stride, layer.padding, kind="average",
            ceil_mode=layer.ceil_mode, count_include_pad=layer.count_include_pad, out=arrays.out,
        )  # fmt: skip

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        F, x, sides = _functional(), inputs[0], _pool_sides(layer, inputs[0], (1, 1))
        padded = F.pad(x, _sides(sides))
        area = math.prod(layer.kernel_size)
        sums = F.avg_pool2d(padded, layer.kernel_size, layer.stride) * area
        counted = x[:1, :1] * 0 + 1
        if layer.count_include_pad:
            counted = F.pad(counted, _sides(layer.padding), value=1.0)
            sides = tuple((0, total - size) for total, size in zip(padded.shape[2:], counted.shape[2:], strict=True))
        counts = F.avg_pool2d(F.pad(counted, _sides(sides)), layer.kernel_size, layer.stride) * area
        rows, columns = layer.output_shape[2:]
        return (sums / counts)[..., :rows, :columns]

    def terms(self, layer: Any) -> int:
        return math.prod(layer.kernel_size)


@register
class Softmax(Operator):
    """exp(x) / Σ exp(x) along layer.dim."""

    layer = kinds.Softmax

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        x, dim = arrays.x, step.layer.dim
        if not layouts.has(x, "NCHW"):  # stored as (N, H, W, C)
            dim = {1: 3, 2: 1, 3: 2}[dim]
        return run.run("softmax", layouts.as_stored(x), dim=dim, out=layouts.as_stored(arrays.out))

    def refuses(self, backend: str, layer: Any) -> str | None:
        if backend == "cudnn" and any(size != 1 for size in layer.output_shape[layer.dim + 1 :]):
            return f"runs Softmax along the last dimension, not along dimension {layer.dim} of {layer.output_shape}"
        return None

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        """By common.kernels: not worth a cuDNN graph."""
        x, before = run.rows(arrays.x)
        result = cuda.empty(x.shape, x.dtype)
        copy = run.copy(result.reshape(arrays.x.shape), arrays.out)
        return run.without_scratch([*before, lambda: kernels.softmax(x, out=result), copy], "common.kernels.softmax")

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].softmax(layer.dim)

    def terms(self, layer: Any) -> int:
        return layer.output_shape[layer.dim]


# ---- Elements moved


@register
class Concat(Operator):
    """The inputs one after the other along layer.dim."""

    layer = kinds.Concat

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("concat", arrays.inputs, step.layer.dim, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        import torch

        return torch.cat(list(inputs), layer.dim)


@register
class Slice(Operator):
    """layer.sizes elements of each axis after the batch, from layer.starts in steps of layer.steps."""

    layer = kinds.Slice

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer, n = step.layer, len(arrays.x)
        return run.run(
            "strided_slice", arrays.x, (0, *layer.starts), (n, *layer.sizes), (1, *layer.steps), out=arrays.out
        )

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        import torch

        x = inputs[0]
        for axis, (start, size, by) in enumerate(zip(layer.starts, layer.sizes, layer.steps, strict=True), 1):
            x = x.index_select(axis, torch.arange(size, device=x.device) * by + start)  # slices have no negative steps
        return x


@register
class Pad(Operator):
    """The input with layer.value around it."""

    layer = kinds.Pad

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("pad", arrays.x, step.layer.padding, step.layer.value, out=arrays.out)

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().pad(inputs[0], _sides(layer.padding), value=layer.value)


@register
class Permute(Operator):
    """The input with its dimensions in the order layer.dims."""

    layer = kinds.Permute

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.permute(arrays.x, arrays.out, step.layer.dims)

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.without_scratch([run.copy(arrays.x, arrays.out, step.layer.dims)], "copy")

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].permute(layer.dims)


@register
class ChannelShuffle(Operator):
    """The channels of layer.groups groups interleaved: one permutation, of the channels in groups."""

    layer = kinds.ChannelShuffle

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        x, out = layouts.as_stored(arrays.x), layouts.as_stored(arrays.out)
        groups, each = step.layer.groups, arrays.x.shape[1] // step.layer.groups
        if layouts.has(arrays.x, "NCHW"):
            n, _, *area = x.shape
            dims, apart, turned = (0, 2, 1, 3, 4), (n, groups, each, *area), (n, each, groups, *area)
        else:
            dims, apart, turned = (0, 1, 2, 4, 3), (*x.shape[:3], groups, each), (*x.shape[:3], each, groups)
        return run.run("permute", x.reshape(apart), dims, out=out.reshape(turned))

    cudnn = kernels

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return _functional().channel_shuffle(inputs[0], layer.groups)


@register
class Reshape(Operator):
    """The same elements in another shape: a view where the layout allows it, else a copy."""

    layer = kinds.Reshape

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return [] if run.is_view(step) else run.permute(arrays.x, arrays.out, tuple(range(arrays.x.ndim)))

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.without_scratch([run.copy(arrays.x, arrays.out)], "copy")

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].reshape(inputs[0].shape[0], *layer.shape)


# ---- Integers


@register
class Quantize(Operator):
    """The codes of layer.grid."""

    layer = kinds.Quantize

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        grid = layer.grid
        return ((inputs[0] / grid.scale[0]).round() + grid.zero_point[0]).clamp(grid.low, grid.high)

    def cost(self, step: Step, itemsize: int) -> Cost:
        return Cost(5 * math.prod(step.output_shape), 0)  # a float and a code per element


@register
class Dequantize(Operator):
    """The numbers that codes of layer.grid stand for."""

    layer = kinds.Dequantize

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return (inputs[0] - layer.grid.zero_point[0]) * layer.grid.scale[0]

    def cost(self, step: Step, itemsize: int) -> Cost:
        return Cost(5 * math.prod(step.output_shape), 0)  # a float and a code per element


# ---- PyTorch


def _functional() -> Any:
    import torch.nn.functional

    return torch.nn.functional


def _tensor(array: np.ndarray, like: Any) -> Any:
    """The array as a tensor on the device of `like`."""
    import torch

    return torch.from_numpy(array).to(like.device)


def _sides(padding: Any) -> tuple[int, int, int, int]:
    """((top, bottom), (left, right)) in the order of torch.nn.functional.pad: left, right, top, bottom."""
    (top, bottom), (left, right) = padding
    return left, right, top, bottom


def _pool_sides(layer: Any, x: Any, dilation: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """((top, bottom), (left, right)) so that all windows fit: ceil_mode may need more than the layer's padding."""
    sides = []
    for size, out, kernel, stride, (before, after), d in zip(
        x.shape[2:], layer.output_shape[2:], layer.kernel_size, layer.stride, layer.padding, dilation, strict=True
    ):
        needed = (out - 1) * stride + d * (kernel - 1) + 1
        sides.append((before, max(after, needed - size - before)))
    return tuple(sides)
