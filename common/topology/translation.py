"""What the reader knows on its way through an ONNX graph: every tensor so far, and the layers made."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from .constants import Budget
from .layers import Layer, Permute, Reshape, Shape
from .node import Node
from .tensors import as_float32


@dataclass(frozen=True)
class Activation:
    """An ONNX tensor that is computed at run time, as a view of a tensor that a layer writes.

    Reshapes and transposes cost nothing until a layer needs the elements in that order, so they are only
    noted here, and become layers if some layer does.
    """

    tensor: str  # what the layer writes
    stored: Shape  # shape of that
    shape: Shape  # shape that the ONNX graph sees
    dtype: np.dtype
    dims: tuple[int, ...] | None = None  # axis i of `shape` is dimension dims[i] of `stored`, else: reshaped
    averaged: frozenset[int] = frozenset()  # dimensions of `stored` whose mean is still to be taken

    @property
    def permuted(self) -> bool:
        """Whether the axes of `shape` are those of `stored` in another order."""
        return self.dims is not None and self.dims != tuple(range(len(self.stored)))

    @property
    def is_direct(self) -> bool:
        """Whether this tensor is exactly what the layer writes."""
        return self.shape == self.stored and not self.permuted and not self.averaged


def as_written(tensor: str, shape: Shape, dtype: np.dtype) -> Activation:
    """What a layer writes, not seen in any other way."""
    return Activation(tensor, shape, shape, dtype, tuple(range(len(shape))))


class Names:
    """Names in use, and new ones in constant time each, however many a file has chosen to clash with them."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._number: Counter[str] = Counter()  # the last one tried behind a name

    def take(self, *names: str) -> str:
        """The first of the names that is free, or else the first one with a number; from now on it is in use."""
        name = next((name for name in names if name not in self._taken), "")
        while not name:
            self._number[names[0]] += 1
            numbered = f"{names[0]}.{self._number[names[0]] + 1}"
            name = "" if numbered in self._taken else numbered
        self._taken.add(name)
        return name


class Translation:
    """Layers and parameters found so far; `values` holds each ONNX tensor: an Activation, or a constant."""

    def __init__(
        self,
        values: dict[str, Activation | np.ndarray],
        names: set[str],
        file_batch: int | None,
        budget: Budget,
    ):
        """names: of all the file's tensors. file_batch: the batch size that the file fixes, None if it does not."""
        self.values = values
        self.file_batch = file_batch
        self.budget = budget
        self.layers: list[Layer] = []
        self.parameters: dict[str, np.ndarray] = {}
        self.writer: dict[str, str] = {}  # name of the node that writes each tensor
        self._layer_names = Names()
        self._tensor_names = Names(names)  # so that ours differ from those still to come
        self._written: set[str] = set()  # tensors that layers write
        self._stored: dict[tuple, str] = {}  # which parameter a constant is, seen in one way

    def value(self, node: Node, position: int) -> Activation | np.ndarray | None:
        """The node's input at `position`, None where it is left out."""
        if position >= len(node.inputs) or not node.inputs[position]:
            return None
        name = node.inputs[position]
        if name not in self.values:
            raise node.unsupported(f"it reads {name!r}, a second output that is not computed here")
        return self.values[name]

    def activation(self, node: Node, position: int = 0) -> Activation:
        """The input at `position`, which has to be there and to be computed at run time."""
        value = self.value(node, position)
        if value is None:
            raise node.invalid(f"input {position} is missing")
        if not isinstance(value, Activation):
            raise node.unsupported(f"input {position} is a constant, where a computed tensor is expected")
        if value.averaged and node.op_type != "ReduceMean":
            raise node.unsupported("it reads a mean over only one of height and width")
        return value

    def constant(self, node: Node, position: int) -> np.ndarray | None:
        """A constant input, None where it is left out."""
        value = self.value(node, position)
        if isinstance(value, Activation):
            raise node.unsupported(f"input {position} ({node.inputs[position]!r}) is computed at run time")
        return value

    def direct(self, node: Node, position: int = 0) -> Activation:
        """The input as a tensor that a layer writes, in the shape that the ONNX graph sees."""
        return self.materialize(node, self.activation(node, position), node.inputs[position])

    def materialize(self, node: Node, value: Activation, name: str) -> Activation:
        """Make a layer of the reshape or transpose that `value` notes, if there is one."""
        if value.is_direct:
            return value
        source = as_written(value.tensor, value.stored, value.dtype)
        if value.permuted:
            result = self.emit(Permute, node, [source], view=name, dims=value.dims)
        else:
            result = self.emit(Reshape, node, [source], view=name, shape=value.shape[1:])
        self.values[name] = result
        return result

    def emit(
        self, kind: type[Layer], node: Node, sources: list[Activation], view: str | None = None, **fields
    ) -> Activation:
        """Append a layer that reads what `sources` are stored as.

        It writes the node's output, or the tensor `view` where it makes a layer of that.
        """
        if view is None:
            output, name = node.outputs[0], node.name
        else:
            output = self._tensor_names.take(f"{view}.view") if view in self._written else view
            name = self.writer.get(view, view)
        name = self._layer_names.take(name, output)
        self._written.add(output)
        try:
            layer = kind(
                name=name,
                inputs=tuple(source.tensor for source in sources),
                output=output,
                input_shapes=tuple(source.stored for source in sources),
                **fields,
            )
        except ValueError as error:
            raise node.invalid(error) from error
        self.layers.append(layer)
        return as_written(output, layer.output_shape, sources[0].dtype)

    def pointwise(self, kind: type[Layer], node: Node, value: Activation, **fields) -> Activation:
        """A layer that treats every element alike, so that a view stays the view it is."""
        result = self.emit(kind, node, [value], **fields)
        return replace(value, tensor=result.tensor)

    def parameter(self, name: str, array: np.ndarray, node: Node) -> str:
        """Keep a parameter as float32 under its ONNX name, or near it if the name holds another array; that name."""
        key = self._constant_key(name, array)
        if key in self._stored:
            return self._stored[key]
        if key is None:  # computed for this node: as many nodes as there are could each ask for a large one
            self.budget.take(array.shape)
        stored = self._keep(name, as_float32(array, f"{node}: {name!r}"), node)
        if key is not None:
            self._stored[key] = stored
        return stored

    def _constant_key(self, name: str, array: np.ndarray) -> tuple | None:
        """What tells views of one constant of the file apart; None if the array is not the constant called `name`."""
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
        """ONNX converts nothing on its own: numbers of another type are an error in the file."""
        for constant in constants:
            if constant is not None and constant.dtype != value.dtype:
                raise node.invalid(f"its numbers are {constant.dtype}, its input is {value.dtype}")

    def view(self, node: Node, value: Activation, shape: Shape) -> Activation:
        """The same elements in the same order under another shape, which has to keep the batch first."""
        if value.permuted:
            value = self.materialize(node, value, node.inputs[0])
        if math.prod(shape) != math.prod(value.shape):
            raise node.invalid(f"{value.shape} cannot be seen as {shape}")
        if not shape or shape[0] != value.stored[0]:
            raise node.unsupported(f"it makes {shape} of {value.shape}, which does not keep the batch first")
        dims = tuple(range(len(shape))) if shape == value.stored else None
        return replace(value, shape=shape, dims=dims)

    def transposed(self, node: Node, value: Activation, perm: tuple[int, ...]) -> Activation:
        """Axis i of the result is axis perm[i] of `value`."""
        rank = len(value.shape)
        if sorted(perm) != list(range(rank)):
            raise node.invalid(f"{perm} does not permute {rank} dimensions")
        if perm[0] != 0:
            raise node.unsupported(f"it moves the batch dimension to {perm.index(0)}")
        shape = tuple(value.shape[axis] for axis in perm)
        if value.dims is not None:
            dims: tuple[int, ...] | None = tuple(value.dims[axis] for axis in perm)
            moved = [dim for dim in dims or () if value.stored[dim] > 1]
            if moved == sorted(moved):  # only sizes of 1 change places: the elements keep their order
                dims = tuple(range(rank)) if shape == value.stored else None
            return replace(value, shape=shape, dims=dims)
        moved = [axis for axis in perm if value.shape[axis] > 1]
        if moved == sorted(moved):
            return self.view(node, value, shape)
        value = self.materialize(node, value, node.inputs[0])
        return replace(value, shape=shape, dims=perm)

    def per_channel(self, node: Node, value: Activation, constant: np.ndarray) -> np.ndarray:
        """A constant that is broadcast to `value`, as one number a channel (dimension 1 of `stored`)."""
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
        # A vector a sample, whichever axis it lies along: (N, C, 1, 1) seen as (N, C) or as (N, 1, 1, C).
        elif math.prod(value.stored[2:]) == 1 and aligned.shape == (1, *value.shape[1:]):
            return aligned.reshape(channels)
        raise refusal
