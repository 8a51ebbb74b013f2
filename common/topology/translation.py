"""The state of the translation of an ONNX graph: the tensors seen so far, and the layers created."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from .constants import Budget
from .errors import UnsupportedModel
from .grids import Grid
from .layers import ChannelShuffle, Layer, Mean, Permute, Reshape, Shape
from .node import Node
from .tensors import as_float32


@dataclass(frozen=True)
class Activation:
    """An ONNX tensor that is computed at run time, as a view of a tensor that a layer writes.

    Reshapes and transposes are only recorded here. They become layers if some layer needs the elements in that order.
    """

    tensor: str  # name of the layer's output
    stored: Shape  # shape of `tensor`
    shape: Shape  # shape in the ONNX graph
    dtype: np.dtype
    dims: tuple[int, ...] | None = None  # axis i of `shape` is dimension dims[i] of `stored`; None: reshaped
    averaged: frozenset[int] = frozenset()  # dimensions of `stored` whose mean is pending
    in_line: bool = False  # whether `shape` has all elements of all samples in one axis

    @property
    def permuted(self) -> bool:
        """Whether the elements are in another order than those of `stored`; axes of size 1 may be anywhere."""
        moved = [dim for dim in self.dims or () if self.stored[dim] > 1]
        return moved != sorted(moved)

    @property
    def is_direct(self) -> bool:
        """Whether this tensor equals the layer's output, without a view."""
        return self.shape == self.stored and not self.permuted and not self.averaged


def not_first(node: Node, before: Shape, after: Shape) -> UnsupportedModel:
    """The error, not raised, of a node for a view in which the batch is not the first dimension."""
    return node.unsupported(f"it makes {after} of {before}, which does not keep the batch first")


def as_written(tensor: str, shape: Shape, dtype: np.dtype) -> Activation:
    """An Activation that is a layer's output itself."""
    return Activation(tensor, shape, shape, dtype, tuple(range(len(shape))))


class Names:
    """A set of names in use, which generates new ones in amortised constant time, even for adversarial files."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._number: Counter[str] = Counter()  # the last number tried for a name

    def take(self, *names: str) -> str:
        """Reserve and return the first free one of `names`, or else the first of them followed by a number."""
        name = next((name for name in names if name not in self._taken), "")
        while not name:
            self._number[names[0]] += 1
            numbered = f"{names[0]}.{self._number[names[0]] + 1}"
            name = "" if numbered in self._taken else numbered
        self._taken.add(name)
        return name


class Translation:
    """Layers and parameters created so far; `values`: each ONNX tensor, an Activation or a constant array."""

    def __init__(
        self,
        values: dict[str, Activation | np.ndarray],
        names: set[str],
        file_batch: int | None,
        budget: Budget,
    ):
        """names: of all tensors in the file. file_batch: the batch size that the file fixes, or None."""
        self.values = values
        self.file_batch = file_batch
        self.budget = budget
        self.layers: list[Layer] = []
        self.parameters: dict[str, np.ndarray] = {}
        self.grids: dict[str, Grid] = {}  # of constants that the file stores as integers, and of such parameters
        self.writer: dict[str, str] = {}  # name of the node that writes each tensor
        self._layer_names = Names()
        self._tensor_names = Names(names)  # new names must differ from those of tensors not reached yet
        self._reshaped: dict[str, Activation] = {}  # what the Reshape layers read, by their output
        self._written: set[str] = set()  # tensors that layers write
        self._stored: dict[tuple, str] = {}  # by _constant_key, the name of the parameter

    def value(self, node: Node, position: int) -> Activation | np.ndarray | None:
        """The node's input at `position`, None if omitted. UnsupportedModel for an output that is not computed."""
        if position >= len(node.inputs) or not node.inputs[position]:
            return None
        name = node.inputs[position]
        if name not in self.values:
            raise node.unsupported(f"it reads {name!r}, a second output that is not computed here")
        return self.values[name]

    def activation(self, node: Node, position: int = 0) -> Activation:
        """The input at `position`. InvalidModel if it is omitted, UnsupportedModel if it is a constant."""
        value = self.value(node, position)
        if value is None:
            raise node.invalid(f"input {position} is missing")
        if not isinstance(value, Activation):
            raise node.unsupported(f"input {position} is a constant, where a computed tensor is expected")
        if value.in_line and node.op_type not in ("Gather", "Reshape"):
            raise not_first(node, value.stored, value.shape)
        if value.averaged and node.op_type != "ReduceMean":
            return self.materialize(node, value, node.inputs[position])
        return value

    def constant(self, node: Node, position: int) -> np.ndarray | None:
        """The constant input at `position`, None if omitted. UnsupportedModel if it is computed at run time."""
        value = self.value(node, position)
        if isinstance(value, Activation):
            raise node.unsupported(f"input {position} ({node.inputs[position]!r}) is computed at run time")
        return value

    def direct(self, node: Node, position: int = 0) -> Activation:
        """The input without a view: a layer's output in the shape of the ONNX graph."""
        return self.materialize(node, self.activation(node, position), node.inputs[position])

    def materialize(self, node: Node, value: Activation, name: str) -> Activation:
        """Append a layer for the reshape, transpose or mean of `value`, if any; return its output, tensor `name`."""
        if value.is_direct:
            return value
        if value.in_line:
            raise not_first(node, value.stored, value.shape)
        if value.averaged:
            return self._mean(node, value, name)
        source = as_written(value.tensor, value.stored, value.dtype)
        if value.permuted:
            result = self.emit(Permute, node, [source], view=name, dims=value.dims)
        else:
            result = self.emit(Reshape, node, [source], view=name, shape=value.shape[1:])
            self._reshaped[result.tensor] = source
        self.values[name] = result
        return result

    def _mean(self, node: Node, value: Activation, name: str) -> Activation:
        """Append a Mean layer for the pending mean in `value`, over height or width; return its output as a view."""
        (dim,) = value.averaged
        assert value.dims is not None
        result = self.emit(Mean, node, [as_written(value.tensor, value.stored, value.dtype)], view=name, dim=dim)
        dims = value.dims if dim in value.dims else (*value.dims, dim)
        result = replace(result, shape=tuple(result.stored[one] for one in dims), dims=dims)
        result = self.view(node, result, value.shape) if result.shape != value.shape else result
        self.values[name] = result
        return result

    def emit(
        self,
        kind: type[Layer],
        node: Node,
        sources: list[Activation],
        view: str | None = None,
        output: str | None = None,
        **fields,
    ) -> Activation:
        """Append a layer that reads the tensors of `sources`, ignoring their views; return its output.

        It writes `output`, by default the node's first output, or the tensor `view` if given. InvalidModel if the
        shapes do not fit the layer.
        """
        if view is None:
            tensor, name = output or node.outputs[0], node.name
        else:
            tensor = self._tensor_names.take(f"{view}.view") if view in self._written else view
            name = self.writer.get(view, view)
        name = self._layer_names.take(name, tensor)
        self._written.add(tensor)
        try:
            layer = kind(
                name=name,
                inputs=tuple(source.tensor for source in sources),
                output=tensor,
                input_shapes=tuple(source.stored for source in sources),
                **fields,
            )
        except ValueError as error:
            raise node.invalid(error) from error
        self.layers.append(layer)
        return as_written(tensor, layer.output_shape, sources[0].dtype)

    def new_tensor(self, name: str) -> str:
        """A tensor name that the file does not use: `name`, or `name` and a number."""
        return self._tensor_names.take(name)

    def pointwise(self, kind: type[Layer], node: Node, value: Activation, **fields) -> Activation:
        """Append an elementwise layer; the view of `value` applies to its output as well."""
        result = self.emit(kind, node, [value], **fields)
        return replace(value, tensor=result.tensor)

    def parameter(self, name: str, array: np.ndarray, node: Node) -> str:
        """Store a parameter as float32; return its name: the ONNX name, or a variant if that holds another array."""
        key = self._constant_key(name, array)
        if key in self._stored:
            return self._stored[key]
        if key is None:  # computed for this node, not stored in the file: many nodes could each allocate a large one
            self.budget.take(array.shape)
        stored = self._keep(name, as_float32(array, f"{node}: {name!r}"), node)
        if key is not None:
            self._stored[key] = stored
            if name in self.grids:
                self.grids[stored] = self.grids[name]
        return stored

    def _constant_key(self, name: str, array: np.ndarray) -> tuple | None:
        """A key that distinguishes views of one constant; None if the array is not a view of the constant `name`."""
        constant = self.values.get(name)
        if not isinstance(constant, np.ndarray) or not np.may_share_memory(array, constant):
            return None
        return name, array.shape, array.strides

    def _keep(self, name: str, values: np.ndarray, node: Node) -> str:
        for candidate in (name, f"{name}@{node.name}", f"{name}@{node.outputs[0]}"):
            known = self.parameters.get(candidate)
            if known is None:
                self.parameters[candidate] = values
                return candidate
            if known.shape == values.shape and np.array_equal(known, values, equal_nan=True):
                return candidate
        raise node.invalid(f"the parameter {name!r} is used in too many ways")

    def check_type(self, node: Node, value: Activation, *constants: np.ndarray | None) -> None:
        """Raise InvalidModel if a constant's dtype is not that of `value`: ONNX has no implicit conversion."""
        for constant in constants:
            if constant is not None and constant.dtype != value.dtype:
                raise node.invalid(f"its numbers are {constant.dtype}, its input is {value.dtype}")

    def view(self, node: Node, value: Activation, shape: Shape) -> Activation:
        """`value` reshaped. InvalidModel if the shape does not fit, UnsupportedModel if the batch is not first.

        It is a view, unless `value` is transposed and a layer has to bring its elements into that order.
        """
        if (shuffled := self._channel_shuffle(node, value, shape)) is not None:
            return shuffled
        if value.permuted:
            value = self.materialize(node, value, node.inputs[0])
        if math.prod(shape) != math.prod(value.shape):
            raise node.invalid(f"{value.shape} cannot be seen as {shape}")
        if shape and shape[0] == value.stored[0]:
            dims = tuple(range(len(shape))) if shape == value.stored else None
            return replace(value, shape=shape, dims=dims, in_line=False)
        if len(shape) == 1:
            return replace(value, shape=shape, dims=None, in_line=True)  # to see whether the next node undoes it
        raise not_first(node, value.shape, shape)

    def _channel_shuffle(self, node: Node, value: Activation, shape: Shape) -> Activation | None:
        """A ChannelShuffle layer, if `value` is an image of that shape, in groups of channels that are transposed."""
        image = self._reshaped.get(value.tensor)
        if image is None or not value.permuted or value.dims != (0, 2, 1, *range(3, len(value.stored))):
            return None
        if len(shape) != 4 or shape != image.stored or math.prod(value.stored[3:]) != math.prod(shape[2:]):
            return None
        return self.emit(ChannelShuffle, node, [image], groups=value.stored[1])

    def transposed(self, node: Node, value: Activation, perm: tuple[int, ...]) -> Activation:
        """`value` transposed by `perm`. InvalidModel for an invalid `perm`, UnsupportedModel if the batch moves."""
        rank = len(value.shape)
        if sorted(perm) != list(range(rank)):
            raise node.invalid(f"{perm} does not permute {rank} dimensions")
        if perm[0] != 0:
            raise node.unsupported(f"it moves the batch dimension to {perm.index(0)}")
        shape = tuple(value.shape[axis] for axis in perm)
        if value.dims is not None:
            turned = replace(value, shape=shape, dims=tuple(value.dims[axis] for axis in perm))
            return replace(turned, dims=tuple(range(rank))) if turned.is_direct else turned
        moved = [axis for axis in perm if value.shape[axis] > 1]
        if moved == sorted(moved):
            return self.view(node, value, shape)
        value = self.materialize(node, value, node.inputs[0])
        return replace(value, shape=shape, dims=perm)

    def per_channel(self, node: Node, value: Activation, constant: np.ndarray) -> np.ndarray:
        """A constant that is broadcast to `value`, as one number per channel, (channels,).

        Channels are dimension 1 of `stored`. UnsupportedModel if the constant varies along another dimension.
        """
        rank = len(value.shape)
        refusal = node.unsupported(
            f"a constant of shape {constant.shape} is not one number a channel of a tensor of {value.shape}"
        )
        if constant.ndim > rank or constant.size == 0 or len(value.stored) < 2:
            raise refusal
        channels = value.stored[1]
        self.budget.take((channels,))
        if constant.size == 1:
            return np.full(channels, constant.reshape(()))
        aligned = constant.reshape((1,) * (rank - constant.ndim) + constant.shape)
        if value.dims is not None:
            by_dim = np.transpose(aligned, np.argsort(value.dims))
            if by_dim.shape == (1, channels, *(1,) * (rank - 2)):
                return by_dim.reshape(channels)
        # One vector per sample, along any axis: (N, C, 1, 1) viewed as (N, C) or as (N, 1, 1, C).
        elif math.prod(value.stored[2:]) == 1 and aligned.shape == (1, *value.shape[1:]):
            return aligned.reshape(channels)
        raise refusal
