"""The operators of common.topology's layers: one entry per type of layer, with its implementation on each backend.

A new operator can have its layer, its ONNX reader and its kernel in one file, tests/network/leaky_relu.py for example;
importing that file registers it.
"""

import math
from typing import Any, ClassVar

import numpy as np

from .. import cuda, kernels
from ..cuda import layout as layouts
from ..cuda.checks import bounds
from ..topology import layers as kinds
from .registry import Arrays, Operator, Step, register
from .steps import activation_of

# Methods are as documented in registry.Operator.


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
            out=arrays.out,
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


@register
class Linear(Operator):
    """A fully connected layer: a matrix product of the flattened input."""

    layer = kinds.Linear

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        x, before = run.rows(arrays.x)
        return [*before, *run.run("gemm", x, *run.weights(step.layer), transpose_b=True, out=arrays.out)]

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

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        given = {name: getattr(step.layer, name) for name in self.takes}
        return run.run("activate", arrays.x, self.function, **given, out=arrays.out)


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

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0] * inputs[1]


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
class MaxPool2d(Operator):
    """The maximum of each window; padding counts as −∞."""

    layer = kinds.MaxPool2d

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        layer = step.layer
        return run.run(
            "pool2d", arrays.x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, kind="max",
            ceil_mode=layer.ceil_mode, out=arrays.out,
        )  # fmt: skip

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

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        import torch

        return torch.cat(list(inputs), layer.dim)


@register
class Pad(Operator):
    """The input with layer.value around it."""

    layer = kinds.Pad

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return run.run("pad", arrays.x, step.layer.padding, step.layer.value, out=arrays.out)

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
class Reshape(Operator):
    """The same elements in another shape: a view where the layout allows it, else a copy."""

    layer = kinds.Reshape

    def kernels(self, run: Any, step: Step, arrays: Arrays) -> list[Any]:
        return [] if run.is_view(step) else run.permute(arrays.x, arrays.out, tuple(range(arrays.x.ndim)))

    def cudnn(self, run: Any, step: Step, arrays: Arrays) -> Any:
        return run.without_scratch([run.copy(arrays.x, arrays.out)], "copy")

    def torch(self, layer: Any, inputs: Any, p: Any) -> Any:
        return inputs[0].reshape(inputs[0].shape[0], *layer.shape)


# ---- PyTorch


def _functional() -> Any:
    import torch.nn.functional

    return torch.nn.functional


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
