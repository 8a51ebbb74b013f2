"""The layers of a network: one frozen dataclass per kind, with its shape rule, MACs and parameters.

Shapes are logical, as in PyTorch: activations (N, C, H, W) or (N, F), convolution weights
(out_channels, in_channels / groups, kH, kW), linear weights (out_features, in_features). Dimension 0 is always the
batch; no layer moves it or combines its elements.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

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
        if not (math.isfinite(self.alpha) and math.isfinite(self.beta)):
            raise ValueError(f"alpha {self.alpha} and beta {self.beta} are not finite")
        return self.input_shapes[0]


@dataclass(frozen=True, kw_only=True)
class HardSwish(Layer):
    """out = in · min(max(in / 6 + 1/2, 0), 1)"""


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


@dataclass(frozen=True, kw_only=True)
class Mul(Layer):
    """out = in_0 · in_1; dimensions of size 1 in one of them are broadcast to the other."""

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
class GlobalAveragePool(Layer):
    """out[n, c] = mean of in[n, c] over height and width: (N, C, H, W) → (N, C, 1, 1)."""

    def _infer_shape(self) -> Shape:
        n, channels, *_ = image_shape(self)
        return (n, channels, 1, 1)


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
