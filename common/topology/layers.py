"""The layers of a network: one frozen dataclass per kind, with its shape rule, MACs and parameters.

Shapes are logical, as in PyTorch: activations (N, C, H, W) or (N, F), convolution weights
(out_channels, in_channels / groups, kH, kW), linear weights (out_features, in_features). Dimension 0 is always the
batch; no layer moves it or combines its elements.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from .grids import Grid

Shape = tuple[int, ...]
Pair = tuple[int, int]
Padding = tuple[Pair, Pair]  # ((top, bottom), (left, right))

MAX_ELEMENTS = 2**31 - 1  # per activation or parameter: kernels use 32-bit indices
MAX_EXTENT = 2**16 - 1  # the largest kernel side, stride, dilation or padding
MAX_DIMENSIONS = 16  # per activation: all backends can reshape and permute as many


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One operator of the network: it reads the tensors `inputs` and writes the tensor `output`.

    The output shape follows from the input shapes by the kind's rule, `_infer_shape`, and `str` shows `_arguments`;
    subclasses override both. ValueError for input shapes that do not fit, and for shapes that are empty, or have more
    than MAX_ELEMENTS elements or MAX_DIMENSIONS dimensions.

    name: the layer's name. inputs: names of the tensors that it reads. output: name of the tensor that it writes.
    input_shapes: one per input, the batch first.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    input_shapes: tuple[Shape, ...]

    arity: ClassVar[int | None] = 1  # number of inputs; None: at least 1

    def __post_init__(self) -> None:
        count = len(self.inputs)
        if count != len(self.input_shapes) or count == 0 or self.arity not in (None, count):
            raise ValueError(f"{type(self).__name__} got {count} inputs and {len(self.input_shapes)} shapes")
        for shape in (*self.input_shapes, self.output_shape, *self.parameter_shapes.values()):
            if len(shape) > MAX_DIMENSIONS:
                raise ValueError(f"{type(self).__name__} has {len(shape)} dimensions, over {MAX_DIMENSIONS}")
            if any(size < 1 for size in shape):
                raise ValueError(f"{type(self).__name__} has the empty shape {shape}")
            if math.prod(shape) > MAX_ELEMENTS:
                raise ValueError(f"{type(self).__name__} has the shape {shape}, over {MAX_ELEMENTS} elements")

    def _infer_shape(self) -> Shape:
        """The output's shape; ValueError if the inputs do not fit. By default the shape of the first input."""
        return self.input_shapes[0]

    @cached_property
    def output_shape(self) -> Shape:
        """Shape of the output, the batch first."""
        return self._infer_shape()

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shape of each parameter array of the layer, by the parameter's name."""
        return {}

    @property
    def macs(self) -> int:
        """Multiply-accumulates, as usually counted: of convolutions and linear layers only, without bias."""
        return 0

    @property
    def params(self) -> int:
        """The number of learned parameters: weights and biases, but not a batch-norm's running statistics."""
        return sum(math.prod(shape) for shape in self.parameter_shapes.values())

    def activation_bytes(self, itemsize: int = 4) -> int:
        """Bytes of activations if each input is read once and the output written once. itemsize: bytes per element."""
        shapes = (*self.input_shapes, self.output_shape)
        return itemsize * sum(math.prod(shape) for shape in shapes)

    def weight_bytes(self, itemsize: int = 4) -> int:
        """Bytes of parameters if each is read once. itemsize: bytes per element."""
        return itemsize * sum(math.prod(shape) for shape in self.parameter_shapes.values())

    @property
    def _arguments(self) -> tuple[str, ...]:
        """The texts that `str` shows between the parentheses."""
        return ()

    def __str__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({', '.join(self._arguments)})" if self._arguments else kind


@dataclass(frozen=True, kw_only=True)
class Conv2d(Layer):
    """out[n, o] = bias[o] + Σ_i weight[o, i] ⋆ in[n, group(o)·I + i], with zeros around the input.

    weight: (out_channels, in_channels / groups, kH, kW), bias: (out_channels,) or None.
    A depthwise convolution has groups = in_channels, a pointwise one kernel_size (1, 1).
    """

    in_channels: int
    out_channels: int
    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    groups: int = 1
    weight: str
    bias: str | None = None

    def _infer_shape(self) -> Shape:
        n, channels, *extent = image_shape(self)
        if channels != self.in_channels:
            raise ValueError(f"input has {channels} channels, the weight is for {self.in_channels}")
        if self.groups < 1 or self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{self.groups} groups do not divide {self.in_channels} input and {self.out_channels} output channels"
            )
        size = windows(extent, self.kernel_size, self.stride, self.padding, self.dilation)
        return (n, self.out_channels, *size)

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shapes of weight and bias, by parameter name."""
        shapes: dict[str, Shape] = {
            self.weight: (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        }
        if self.bias is not None:
            shapes[self.bias] = (self.out_channels,)
        return shapes

    @property
    def macs(self) -> int:
        """in_channels / groups · kH · kW per output element, at this batch size."""
        return math.prod(self.output_shape) * self.in_channels // self.groups * math.prod(self.kernel_size)

    @property
    def _arguments(self) -> tuple[str, ...]:
        shown = [
            str(self.in_channels),
            str(self.out_channels),
            show_pair(self.kernel_size),
            show_pair(self.stride),
            show_padding(self.padding),
            str(self.groups),
        ]
        if self.dilation != (1, 1):
            shown.append(f"dilation={show_pair(self.dilation)}")
        return tuple(shown)


@dataclass(frozen=True, kw_only=True)
class ConvTranspose2d(Layer):
    """The transpose of a Conv2d, as torch.nn.ConvTranspose2d: every input pixel adds weight · in to a window of out.

    On each axis, in[n, i, h] reaches out[n, o, h · stride − before + k · dilation] by weight[i, o mod O/groups, k].
    weight: (in_channels, out_channels / groups, kH, kW), bias: (out_channels,) or None. padding is cut off the output,
    output_padding adds rows and columns after it, before the cut.
    """

    in_channels: int
    out_channels: int
    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    output_padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    weight: str
    bias: str | None = None

    def _infer_shape(self) -> Shape:
        n, channels, *extent = image_shape(self)
        if channels != self.in_channels:
            raise ValueError(f"input has {channels} channels, the weight is for {self.in_channels}")
        if self.groups < 1 or self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{self.groups} groups do not divide {self.in_channels} input and {self.out_channels} output channels"
            )
        check_extents("kernel size", self.kernel_size, least=1)
        check_extents("stride", self.stride, least=1)
        check_extents("dilation", self.dilation, least=1)
        check_extents("padding", self.padding[0] + self.padding[1], least=0)
        size = []
        for before, k, step, pads, more, d in zip(
            extent, self.kernel_size, self.stride, self.padding, self.output_padding, self.dilation, strict=True
        ):
            if not 0 <= more < max(step, d):
                raise ValueError(f"output padding {more} is not between 0 and below stride {step} or dilation {d}")
            after = (before - 1) * step - sum(pads) + d * (k - 1) + 1 + more
            if after < 1:
                raise ValueError(f"padding {pads} leaves none of {after + sum(pads)} pixels")
            size.append(after)
        return (n, self.out_channels, *size)

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shapes of weight and bias, by parameter name."""
        shapes: dict[str, Shape] = {
            self.weight: (self.in_channels, self.out_channels // self.groups, *self.kernel_size)
        }
        if self.bias is not None:
            shapes[self.bias] = (self.out_channels,)
        return shapes

    @property
    def macs(self) -> int:
        """out_channels / groups · kH · kW per input element, at this batch size, with those that padding cuts off."""
        return math.prod(self.input_shapes[0]) * self.out_channels // self.groups * math.prod(self.kernel_size)

    @property
    def _arguments(self) -> tuple[str, ...]:
        shown = [
            str(self.in_channels),
            str(self.out_channels),
            show_pair(self.kernel_size),
            show_pair(self.stride),
            show_padding(self.padding),
            str(self.groups),
        ]
        if self.output_padding != (0, 0):
            shown.append(f"output_padding={show_pair(self.output_padding)}")
        if self.dilation != (1, 1):
            shown.append(f"dilation={show_pair(self.dilation)}")
        return tuple(shown)


@dataclass(frozen=True, kw_only=True)
class Linear(Layer):
    """out[n] = weight · flatten(in[n]) + bias: the input is flattened from dimension 1.

    weight: (out_features, in_features), bias: (out_features,) or None.
    """

    in_features: int
    out_features: int
    weight: str
    bias: str | None = None

    def _infer_shape(self) -> Shape:
        n, *features = self.input_shapes[0]
        if math.prod(features) != self.in_features:
            raise ValueError(f"input has {math.prod(features)} features, the weight is for {self.in_features}")
        return (n, self.out_features)

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shapes of weight and bias, by parameter name."""
        shapes: dict[str, Shape] = {self.weight: (self.out_features, self.in_features)}
        if self.bias is not None:
            shapes[self.bias] = (self.out_features,)
        return shapes

    @property
    def macs(self) -> int:
        """in_features · out_features per image of the batch."""
        return self.input_shapes[0][0] * self.in_features * self.out_features

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.in_features), str(self.out_features))


@dataclass(frozen=True, kw_only=True)
class BatchNorm2d(Layer):
    """out = (in − running_mean) / √(running_var + eps) · weight + bias, per channel (dimension 1).

    All four parameters: (num_features,). Input (N, C, H, W), or (N, C).
    """

    num_features: int
    eps: float = 1e-5
    weight: str
    bias: str
    running_mean: str
    running_var: str

    def _infer_shape(self) -> Shape:
        shape = self.input_shapes[0]
        if len(shape) < 2 or shape[1] != self.num_features:
            raise ValueError(f"input of shape {shape} does not have {self.num_features} channels")
        if not (math.isfinite(self.eps) and self.eps >= 0):
            raise ValueError(f"eps is {self.eps}, not a finite number from 0")
        return shape

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """(num_features,) for each of the four parameters, by parameter name."""
        names = (self.weight, self.bias, self.running_mean, self.running_var)
        return {name: (self.num_features,) for name in names}

    @property
    def params(self) -> int:
        """2 · num_features: weight and bias; the running statistics are not learned."""
        return 2 * self.num_features

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.num_features),)


class Norm(Layer):
    """Base of the layers that normalise by statistics of their input: (in − mean) / √(variance + eps) · weight + bias.

    The variance is the biased one. weight, bias: names of parameters, one number per channel, or None.
    """

    eps: float
    weight: str | None
    bias: str | None

    @property
    def channels(self) -> int:
        """The length of weight and bias."""
        return self.input_shapes[0][1]

    @property
    def parameter_shapes(self) -> dict[str, Shape]:
        """(channels,) for weight and bias, by parameter name."""
        return {name: (self.channels,) for name in (self.weight, self.bias) if name is not None}

    def _check_eps(self) -> None:
        if not (math.isfinite(self.eps) and self.eps >= 0):
            raise ValueError(f"eps is {self.eps}, not a finite number from 0")


@dataclass(frozen=True, kw_only=True)
class LayerNorm(Norm):
    """Normalises along dimension `dim`: 1, the channels of each pixel, as ConvNeXt's LayerNorm2d."""

    dim: int = 1
    eps: float = 1e-5
    weight: str | None = None
    bias: str | None = None

    @property
    def channels(self) -> int:
        """The elements along `dim`."""
        return self.input_shapes[0][self.dim]

    def _infer_shape(self) -> Shape:
        self._check_eps()
        if not 0 < self.dim < len(self.input_shapes[0]):
            raise ValueError(f"dimension {self.dim} is not one after the batch of {self.input_shapes[0]}")
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.channels), *([f"dim={self.dim}"] if self.dim != 1 else []))


@dataclass(frozen=True, kw_only=True)
class GroupNorm(Norm):
    """Normalises groups of neighbouring channels of an image over all pixels, as torch.nn.GroupNorm.

    Input (N, C), or (N, C, …). A group per channel is torch.nn.InstanceNorm2d.
    """

    num_groups: int
    eps: float = 1e-5
    weight: str | None = None
    bias: str | None = None

    def _infer_shape(self) -> Shape:
        self._check_eps()
        shape = self.input_shapes[0]
        if len(shape) < 2 or self.num_groups < 1 or shape[1] % self.num_groups:
            raise ValueError(f"{self.num_groups} groups do not divide the channels of {shape}")
        return shape

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.num_groups), str(self.channels))


@dataclass(frozen=True, kw_only=True)
class ReLU6(Layer):
    """out = min(max(in, 0), 6)"""


@dataclass(frozen=True, kw_only=True)
class ReLU(Layer):
    """out = max(in, 0)"""


@dataclass(frozen=True, kw_only=True)
class Clip(Layer):
    """out = min(max(in, min), max), for bounds other than those of ReLU6 and ReLU."""

    min: float = -math.inf
    max: float = math.inf

    def _infer_shape(self) -> Shape:
        if not self.min <= self.max:  # false for NaN as well
            raise ValueError(f"the bounds {self.min} and {self.max} are not in order")
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (f"{self.min:g}", f"{self.max:g}")


@dataclass(frozen=True, kw_only=True)
class Sigmoid(Layer):
    """out = 1 / (1 + exp(−in))"""


@dataclass(frozen=True, kw_only=True)
class HardSigmoid(Layer):
    """out = min(max(alpha · in + beta, 0), 1)"""

    alpha: float = 1 / 6
    beta: float = 0.5

    def _infer_shape(self) -> Shape:
        check_finite("alpha", self.alpha)
        check_finite("beta", self.beta)
        return self.input_shapes[0]


@dataclass(frozen=True, kw_only=True)
class HardSwish(Layer):
    """out = in · min(max(in / 6 + 1/2, 0), 1)"""


@dataclass(frozen=True, kw_only=True)
class Tanh(Layer):
    """out = tanh(in)"""


@dataclass(frozen=True, kw_only=True)
class Erf(Layer):
    """out = erf(in), the error function."""


@dataclass(frozen=True, kw_only=True)
class Sqrt(Layer):
    """out = √in"""


@dataclass(frozen=True, kw_only=True)
class LeakyReLU(Layer):
    """out = in, or alpha · in where in is negative."""

    alpha: float = 0.01

    def _infer_shape(self) -> Shape:
        check_finite("alpha", self.alpha)
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (f"{self.alpha:g}",)


@dataclass(frozen=True, kw_only=True)
class ELU(Layer):
    """out = in, or alpha · (exp(in) − 1) where in is negative."""

    alpha: float = 1.0

    def _infer_shape(self) -> Shape:
        check_finite("alpha", self.alpha)
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (f"{self.alpha:g}",)


@dataclass(frozen=True, kw_only=True)
class GELU(Layer):
    """out = in · (1 + erf(in / √2)) / 2; approximate "tanh": in · (1 + tanh(√(2/π) · (in + 0.044715 · in³))) / 2."""

    approximate: str = "none"

    def _infer_shape(self) -> Shape:
        if self.approximate not in ("none", "tanh"):
            raise ValueError(f"approximate is {self.approximate!r}, not 'none' or 'tanh'")
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return () if self.approximate == "none" else (self.approximate,)


@dataclass(frozen=True, kw_only=True)
class Softmax(Layer):
    """out = exp(in) / Σ exp(in), the sum along dimension `dim`."""

    dim: int = 1

    def _infer_shape(self) -> Shape:
        if not 0 < self.dim < len(self.input_shapes[0]):
            raise ValueError(f"dimension {self.dim} is not one after the batch of {self.input_shapes[0]}")
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (f"dim={self.dim}",)


@dataclass(frozen=True, kw_only=True)
class ResidualAdd(Layer):
    """out = in_0 + in_1, both of the same shape."""

    arity: ClassVar[int | None] = 2

    def _infer_shape(self) -> Shape:
        first, second = self.input_shapes
        if first != second:
            raise ValueError(f"the shapes {first} and {second} differ")
        return first

    @property
    def _arguments(self) -> tuple[str, ...]:
        return self.inputs


class Broadcast(Layer):
    """Base of the elementwise layers of two inputs: dimensions of size 1 in one of them are broadcast to the other."""

    arity: ClassVar[int | None] = 2

    def _infer_shape(self) -> Shape:
        first, second = self.input_shapes
        fits = len(first) == len(second) and all(a == b or 1 in (a, b) for a, b in zip(first, second, strict=True))
        if not fits or first[0] != second[0]:
            raise ValueError(f"the shapes {first} and {second} do not fit")
        return tuple(max(sizes) for sizes in zip(first, second, strict=True))

    @property
    def _arguments(self) -> tuple[str, ...]:
        return self.inputs


@dataclass(frozen=True, kw_only=True)
class Mul(Broadcast):
    """out = in_0 · in_1, with broadcasting."""


@dataclass(frozen=True, kw_only=True)
class Add(Broadcast):
    """out = in_0 + in_1, with broadcasting. Two inputs of one shape are a ResidualAdd, which convolutions take in."""


@dataclass(frozen=True, kw_only=True)
class Sub(Broadcast):
    """out = in_0 − in_1, with broadcasting."""


@dataclass(frozen=True, kw_only=True)
class Div(Broadcast):
    """out = in_0 / in_1, with broadcasting."""


@dataclass(frozen=True, kw_only=True)
class Maximum(Broadcast):
    """out = max(in_0, in_1), with broadcasting."""


@dataclass(frozen=True, kw_only=True)
class Minimum(Broadcast):
    """out = min(in_0, in_1), with broadcasting."""


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """The inputs concatenated along dimension `dim` (1: the channels)."""

    dim: int = 1
    arity: ClassVar[int | None] = None

    def _infer_shape(self) -> Shape:
        first = self.input_shapes[0]
        if not 0 < self.dim < len(first):
            raise ValueError(f"dimension {self.dim} is not one after the batch of {first}")
        for shape in self.input_shapes:
            if shape[: self.dim] != first[: self.dim] or shape[self.dim + 1 :] != first[self.dim + 1 :]:
                raise ValueError(f"the shapes {first} and {shape} differ outside dimension {self.dim}")
        total = sum(shape[self.dim] for shape in self.input_shapes)
        return (*first[: self.dim], total, *first[self.dim + 1 :])

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (*self.inputs, f"dim={self.dim}")


@dataclass(frozen=True, kw_only=True)
class Slice(Layer):
    """out[n, i, …] = in[n, starts[0] + i · steps[0], …], of shape (N, *sizes); a negative step goes backwards."""

    starts: tuple[int, ...]
    sizes: Shape
    steps: tuple[int, ...]

    def _infer_shape(self) -> Shape:
        n, *extents = self.input_shapes[0]
        if not len(extents) == len(self.starts) == len(self.sizes) == len(self.steps):
            raise ValueError(f"{self.starts}, {self.sizes} and {self.steps} are not one number per axis of {extents}")
        for extent, start, size, step in zip(extents, self.starts, self.sizes, self.steps, strict=True):
            if size < 1 or not (0 <= start < extent and 0 <= start + (size - 1) * step < extent):
                raise ValueError(
                    f"{size} elements from {start} in steps of {step} do not lie in the {extent} of an axis"
                )
        return (n, *self.sizes)

    @property
    def _arguments(self) -> tuple[str, ...]:
        """Each axis after the batch as Python writes it, ":" for all of it."""
        shown = []
        ranges = zip(self.input_shapes[0][1:], self.starts, self.sizes, self.steps, strict=True)
        for extent, start, size, step in ranges:
            end = start + size * step
            text = f"{start}:{'' if end < 0 else end}" + (f":{step}" if step != 1 else "")
            shown.append(":" if (start, size, step) == (0, extent, 1) else text)
        return tuple(shown)


@dataclass(frozen=True, kw_only=True)
class GlobalAveragePool(Layer):
    """out[n, c] = mean of in[n, c] over height and width: (N, C, H, W) → (N, C, 1, 1)."""

    def _infer_shape(self) -> Shape:
        n, channels, *_ = image_shape(self)
        return (n, channels, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Mean(Layer):
    """out = the mean of in along dimension `dim`, which has size 1 in the output."""

    dim: int = 1

    def _infer_shape(self) -> Shape:
        shape = self.input_shapes[0]
        if not 0 < self.dim < len(shape):
            raise ValueError(f"dimension {self.dim} is not one after the batch of {shape}")
        return (*shape[: self.dim], 1, *shape[self.dim + 1 :])

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (f"dim={self.dim}",)


@dataclass(frozen=True, kw_only=True)
class Resize(Layer):
    """The image in the size (height, width), as ONNX's Resize and torch.nn.functional.interpolate; see RESIZE.

    scales: (height, width), of which the positions are computed; None: the quotients of the sizes.
    """

    size: Pair
    mode: str = "linear"
    coordinates: str = "half_pixel"
    rounding: str = "floor"
    scales: tuple[float, float] | None = None

    def _infer_shape(self) -> Shape:
        n, channels, *_ = image_shape(self)
        for name, known in RESIZE.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, not one of {', '.join(known)}")
        check_extents("size", self.size, least=1)
        for scale in self.scales or ():
            if not 0 < scale < math.inf:
                raise ValueError(f"scale {scale} is not a positive number")
        return (n, channels, *self.size)

    @property
    def _arguments(self) -> tuple[str, ...]:
        rounded = [self.rounding] if self.mode == "nearest" and self.rounding != "floor" else []
        return (show_pair(self.size), self.mode, self.coordinates, *rounded)


# The values of Resize's fields. mode: the nearest pixel, or the four around a position, weighted by distance.
# coordinates: the position of a pixel of the output in the input. rounding: of positions, with mode "nearest".
RESIZE = {
    "mode": ("nearest", "linear"),
    "coordinates": ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"),
    "rounding": ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
}


@dataclass(frozen=True, kw_only=True)
class MaxPool2d(Layer):
    """out = the maximum of each window; padding does not take part."""

    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    ceil_mode: bool = False

    def _infer_shape(self) -> Shape:
        n, channels, *extent = image_shape(self)
        size = windows(extent, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        check_pool_windows(extent, self.kernel_size, self.stride, self.padding, self.dilation)
        return (n, channels, *size)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return show_pool(self)


@dataclass(frozen=True, kw_only=True)
class AveragePool2d(Layer):
    """out = the mean of each window; the zeros of the padding are included if count_include_pad."""

    kernel_size: Pair
    stride: Pair = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    ceil_mode: bool = False
    count_include_pad: bool = False

    def _infer_shape(self) -> Shape:
        n, channels, *extent = image_shape(self)
        size = windows(extent, self.kernel_size, self.stride, self.padding, (1, 1), self.ceil_mode)
        check_pool_windows(extent, self.kernel_size, self.stride, self.padding, (1, 1))
        return (n, channels, *size)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return show_pool(self)


@dataclass(frozen=True, kw_only=True)
class Pad(Layer):
    """The input padded with `value`; padding: ((top, bottom), (left, right))."""

    padding: Padding
    value: float = 0.0

    def _infer_shape(self) -> Shape:
        n, channels, height, width = image_shape(self)
        (top, bottom), (left, right) = self.padding
        check_extents("padding", (top, bottom, left, right), least=0)
        if math.isnan(self.value):
            raise ValueError("the padding value is NaN")
        return (n, channels, top + height + bottom, left + width + right)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (show_padding(self.padding), f"value={self.value:g}")


@dataclass(frozen=True, kw_only=True)
class _OnGrid(Layer):
    """Base class of Quantize and Dequantize. grid: of all elements, in 8 bits."""

    grid: Grid

    def _infer_shape(self) -> Shape:
        if self.grid.is_per_channel or self.grid.dtype == "int32":
            raise ValueError(f"activations have one scale and 8 bits, got {self.grid}")
        return self.input_shapes[0]

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.grid),)


@dataclass(frozen=True, kw_only=True)
class Quantize(_OnGrid):
    """out = grid.codes(in), clamp(round(in / scale) + zero_point): integers, as ONNX's QuantizeLinear."""


@dataclass(frozen=True, kw_only=True)
class Dequantize(_OnGrid):
    """out = grid.values(in), (in − zero_point) · scale: the real numbers of integers, as ONNX's DequantizeLinear."""


@dataclass(frozen=True, kw_only=True)
class Reshape(Layer):
    """The same elements in the same order, with the shape (N, *shape)."""

    shape: Shape

    def _infer_shape(self) -> Shape:
        n, *rest = self.input_shapes[0]
        if math.prod(rest) != math.prod(self.shape):
            raise ValueError(f"{tuple(rest)} cannot be seen as {self.shape}")
        return (n, *self.shape)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return tuple(str(size) for size in self.shape)


@dataclass(frozen=True, kw_only=True)
class Permute(Layer):
    """Dimension i of the output is dimension dims[i] of the input; the batch stays first."""

    dims: tuple[int, ...]

    def _infer_shape(self) -> Shape:
        shape = self.input_shapes[0]
        if sorted(self.dims) != list(range(len(shape))) or self.dims[0] != 0:
            raise ValueError(f"{self.dims} does not permute the dimensions after the batch of {shape}")
        return tuple(shape[dim] for dim in self.dims)

    @property
    def _arguments(self) -> tuple[str, ...]:
        return tuple(str(dim) for dim in self.dims)


@dataclass(frozen=True, kw_only=True)
class ChannelShuffle(Layer):
    """Channel i · C / groups + j of the input is channel j · groups + i of the output, as torch.nn.ChannelShuffle."""

    groups: int

    def _infer_shape(self) -> Shape:
        shape = image_shape(self)
        if self.groups < 1 or shape[1] % self.groups:
            raise ValueError(f"{self.groups} groups do not divide {shape[1]} channels")
        return shape

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (str(self.groups),)


def windows(
    extent: list[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
    ceil_mode: bool = False,
) -> Pair:
    """Number of windows along height and width: ⌊(in + before + after − dilation·(k − 1) − 1) / stride⌋ + 1.

    ceil_mode rounds up, provided that the last window still starts inside the input or the padding before it.
    ValueError if a window does not fit into the padded input, or a number is out of range (see check_extents).
    """
    check_extents("kernel size", kernel_size, least=1)
    check_extents("stride", stride, least=1)
    check_extents("dilation", dilation, least=1)
    check_extents("padding", padding[0] + padding[1], least=0)
    counts = []
    for size, k, step, (before, after), d in zip(extent, kernel_size, stride, padding, dilation, strict=True):
        room = size + before + after - d * (k - 1) - 1
        if room < 0:
            raise ValueError(f"a window of {d * (k - 1) + 1} does not fit into {size} + {before + after} padding")
        count = (room + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= size + before:
            count -= 1
        counts.append(count)
    return (counts[0], counts[1])


def image_shape(layer: Layer) -> Shape:
    """The first input's shape (N, C, H, W). ValueError if it does not have four dimensions."""
    shape = layer.input_shapes[0]
    if len(shape) != 4:
        raise ValueError(f"input of shape {shape} is not (N, C, H, W)")
    return shape


def check_extents(what: str, values: tuple[int, ...], least: int) -> None:
    """Raise ValueError unless each value is between `least` and MAX_EXTENT; `what` names them in the message."""
    for value in values:
        if not least <= value <= MAX_EXTENT:
            raise ValueError(f"{what} {value} is not between {least} and {MAX_EXTENT}")


def check_finite(what: str, value: float) -> None:
    """Raise ValueError unless the value is a finite number; `what` names it in the message."""
    if not math.isfinite(value):
        raise ValueError(f"{what} {value} is not finite")


def check_pool_windows(extent: list[int], kernel_size: Pair, stride: Pair, padding: Padding, dilation: Pair) -> None:
    """Raise ValueError if a window can lie in the padding alone, where a maximum or mean is undefined."""
    for size, k, step, (before, after), d in zip(extent, kernel_size, stride, padding, dilation, strict=True):
        if max(before, after) >= k:
            raise ValueError(f"padding {show_padding(padding)} is not below the window {show_pair(kernel_size)}")
        # A window that starts at s < 0 has its first tap at a position ≥ 0 at s mod d; d starts show all remainders.
        if any(start % d >= size for start in range(-before, 0, step)[:d]):
            raise ValueError(f"a window dilated by {d} has all of its taps in the padding around {size}")


def show_pair(pair: Pair) -> str:
    """ "3" for (3, 3), else "(3, 5)"."""
    return str(pair[0]) if pair[0] == pair[1] else str(pair)


def show_padding(padding: Padding) -> str:
    """Padding as text: as show_pair if opposite sides are equal, else all four numbers."""
    (top, bottom), (left, right) = padding
    return show_pair((top, left)) if (top, left) == (bottom, right) else str(padding)


def show_pool(layer: MaxPool2d | AveragePool2d) -> tuple[str, ...]:
    """The `_arguments` of a pool: window, stride, padding, and "ceil_mode" if it is set."""
    shown = [show_pair(layer.kernel_size), show_pair(layer.stride), show_padding(layer.padding)]
    if layer.ceil_mode:
        shown.append("ceil_mode")
    return tuple(shown)
