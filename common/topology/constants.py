"""Constant folding: nodes whose inputs are all constants are computed when the file is read, within a budget.

Exporters write `x.view(x.size(0), -1)` as Shape, Gather, Unsqueeze and Concat, cast weights, or store them in Constant
nodes. None of these is a layer of the network. The functions of FOLD take (node, inputs, budget) and return the node's
first output; they raise InvalidModel, or an error of NumPy, if the inputs do not fit the operator.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import InvalidModel
from .node import Node
from .tensors import element_type


@dataclass
class Budget:
    """How many elements folding may still produce; it prevents that a small file allocates a large array."""

    elements: int

    def take(self, shape: tuple[int, ...]) -> None:
        """Subtract the elements of an array of this shape. InvalidModel if fewer are left, or for a negative size."""
        if any(size < 0 for size in shape):
            raise InvalidModel(f"a computed constant has the negative shape {shape}")
        self.elements -= math.prod(shape)
        if self.elements < 0:
            raise InvalidModel("its computed constants are much larger than the model itself")


Arrays = list[np.ndarray | None]  # None where an optional input is left out


def fold(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Compute the node's first output. InvalidModel if the inputs do not fit the operator."""
    # a result is at most as large as the inputs, unless its function takes its size from the budget
    budget.take((sum(array.size for array in inputs if array is not None),))
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(FOLD[node.op_type](node, inputs, budget))
    except InvalidModel as error:
        raise error if str(error).startswith("node") else node.invalid(error) from error
    except (ValueError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
        raise node.invalid(f"its constant inputs do not fit: {error}") from error
    return result


def axes_of(
    node: Node, inputs: Arrays, since: int, position: int = 1, attribute: str = "axes"
) -> tuple[int, ...] | None:
    """The node's axes: an attribute before operator set `since`, else the input at `position`. None if missing."""
    if node.opset < since:
        return node.integers(attribute)
    if len(inputs) <= position or inputs[position] is None:
        return None
    return tuple(integers(inputs[position]))


def integers(array: np.ndarray | None) -> list[int]:
    """A constant with a shape, axes or indices as Python integers. InvalidModel unless it is a short integer vector."""
    if array is None or array.dtype.kind not in "iu" or array.ndim > 1 or array.size > 64:
        raise InvalidModel("a shape or a list of axes is not a short vector of integers")
    return [int(value) for value in array.reshape(-1)]


def reshaped(shape: tuple[int, ...], target: list[int], allowzero: bool = False) -> tuple[int, ...]:
    """The output shape of Reshape: 0 copies a size, one −1 stands for the rest. InvalidModel if it does not fit."""
    result = [shape[i] if size == 0 and not allowzero and i < len(shape) else size for i, size in enumerate(target)]
    if result.count(-1) > 1 or any(size < -1 or (size == 0 and 0 not in shape) for size in result):
        raise InvalidModel(f"{target} is not a shape")
    if -1 in result:
        rest = -math.prod(result)
        if rest == 0 or math.prod(shape) % rest:
            raise InvalidModel(f"{shape} cannot be seen as {target}")
        result[result.index(-1)] = math.prod(shape) // rest
    if math.prod(result) != math.prod(shape):
        raise InvalidModel(f"{shape} cannot be seen as {tuple(result)}")
    return tuple(result)


def squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape without these axes; None: without all axes of size 1. InvalidModel for an axis of another size."""
    if axes is None:
        return tuple(size for size in shape if size != 1)
    gone = normalize_axes(axes, len(shape))
    if any(shape[axis] != 1 for axis in gone):
        raise InvalidModel(f"axes {axes} of {shape} are not of size 1")
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def unsqueezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape with axes of size 1 inserted; `axes`: positions in the result. InvalidModel if missing or repeated."""
    if axes is None:
        raise InvalidModel("it has no axes")
    rank = len(shape) + len(axes)
    new = normalize_axes(axes, rank)
    rest = iter(shape)
    return tuple(1 if axis in new else next(rest) for axis in range(rank))


def normalize_axes(axes: tuple[int, ...], rank: int) -> set[int]:
    """The axes as non-negative numbers. InvalidModel unless they are distinct axes of `rank` dimensions."""
    result = {axis + rank if axis < 0 else axis for axis in axes}
    if len(result) != len(axes) or not result <= set(range(rank)):
        raise InvalidModel(f"axes {axes} are not distinct axes of {rank} dimensions")
    return result


def constant(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Constant: the node's value, an array or a number."""
    if node.has("value_float"):
        return np.array(node.number("value_float", 0), np.float32)
    if node.has("value_int"):
        return np.array(node.integer("value_int", 0), np.int64)
    if node.has("value_ints"):
        return np.array(node.integers("value_ints"), np.int64)
    value = node.tensor("value")
    if value is None:
        raise node.unsupported("its value is not a tensor or a number")
    return value


def constant_of_shape(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """ConstantOfShape: an array filled with one number; the input is its shape."""
    shape = tuple(integers(inputs[0]))
    budget.take(shape)
    value = node.tensor("value")
    if value is None:
        value = np.zeros(1, np.float32)
    return np.full(shape, value.reshape(()), value.dtype)


def cast(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Cast, CastLike: the array in another dtype."""
    array = present(inputs[0])
    if node.op_type == "Cast":
        dtype = element_type(node.integer("to", 0), str(node))
        node.integer("saturate", 1)  # both affect only 8-bit floats, which are not read here
        node.text("round_mode", "up")
    else:
        dtype = present(inputs[1]).dtype
        node.integer("saturate", 1)
        node.text("round_mode", "up")
    return array.astype(dtype)


def present(array: np.ndarray | None) -> np.ndarray:
    """The array. InvalidModel for None, an omitted input."""
    if array is None:
        raise InvalidModel("a required input is left out")
    return array


def gather(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Gather: elements of the first input along `axis`, at the indices in the second."""
    array, indices = present(inputs[0]), present(inputs[1])
    (axis,) = normalize_axes((node.integer("axis", 0),), array.ndim)
    budget.take((*array.shape[:axis], *indices.shape, *array.shape[axis + 1 :]))
    return np.take(array, indices, axis=axis)


def concat(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Concat: the inputs one after the other along `axis`."""
    arrays = [present(array) for array in inputs]
    (axis,) = normalize_axes((node.integer("axis", 0),), arrays[0].ndim)
    return np.concatenate(arrays, axis=axis)


def shape(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Shape: the input's shape, or its dimensions start … end, int64."""
    sizes = present(inputs[0]).shape
    start, end = node.integer("start", 0), node.integer("end", len(sizes))
    return np.array(sizes[start:end], np.int64)


def slice_(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Slice of a constant."""
    array = present(inputs[0])
    return array[slices(node, inputs, array.shape)]


def slices(node: Node, inputs: Arrays, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """A Python slice per axis of `shape` for a Slice node; inputs: its constant ones, the first is not used.

    ONNX gives start, end, axis and step per sliced axis: attributes before operator set 10 (no steps), then inputs.
    """
    if node.opset < 10:
        starts, ends = node.integers("starts") or (), node.integers("ends") or ()
        axes, steps = node.integers("axes"), None
    else:
        if any(given is not None and given.ndim != 1 for given in inputs[1:]):
            raise InvalidModel("its bounds, axes or steps are not vectors")
        starts, ends = tuple(integers(inputs[1])), tuple(integers(inputs[2]))
        axes = axes_of(node, inputs, since=10, position=3)
        steps = axes_of(node, inputs, since=10, position=4)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    where = [slice(None)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # a backward slice up to and including element 0 has an end far below 0, which Python needs as None
        where[axis] = slice(start, None if step < 0 and end < -shape[axis] else end, step)
    return tuple(where)


def reshape(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Reshape to the shape in the second input."""
    array = present(inputs[0])
    return array.reshape(reshaped(array.shape, integers(inputs[1]), node.flag("allowzero")))


def flatten(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Flatten to a matrix; the axes before `axis` become its rows."""
    array = present(inputs[0])
    axis = node.integer("axis", 1)
    return array.reshape(math.prod(array.shape[: axis if axis >= 0 else axis + array.ndim]), -1)


def transpose(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Transpose by `perm`, by default reversed; C-contiguous."""
    array = present(inputs[0])
    return np.ascontiguousarray(np.transpose(array, node.integers("perm")))


def expand(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """Expand: the array broadcast to the shape in the second input."""
    array = present(inputs[0])
    shape = np.broadcast_shapes(array.shape, tuple(integers(inputs[1])))
    budget.take(shape)
    return np.broadcast_to(array, shape)


def elementwise(compute: Callable) -> Callable:
    """A function of FOLD that broadcasts its inputs and applies a NumPy function."""

    def folded(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
        arrays = [present(array) for array in inputs]
        if len({array.dtype for array in arrays[-2:]}) > 1:
            raise InvalidModel("its inputs differ in type")
        budget.take(np.broadcast_shapes(*(array.shape for array in arrays)))
        return compute(*arrays)

    return folded


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Div; integer quotients are rounded towards zero. InvalidModel for an integer divided by zero."""
    if a.dtype.kind not in "iu":
        return a / b
    if not b.all():
        raise InvalidModel("it divides an integer by zero")
    return (np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype)  # NumPy's // would round down


def reduce_prod(node: Node, inputs: Arrays, budget: Budget) -> np.ndarray:
    """ReduceProd over `axes`, by default all."""
    axes = axes_of(node, inputs, since=18)
    keepdims = node.flag("keepdims", True)
    if node.opset >= 18 and node.flag("noop_with_empty_axes") and not axes:
        return present(inputs[0])
    return np.prod(present(inputs[0]), axis=axes or None, keepdims=keepdims, dtype=present(inputs[0]).dtype)


FOLD: dict[str, Callable[[Node, Arrays, Budget], np.ndarray]] = {
    "Add": elementwise(np.add),
    "Cast": cast,
    "CastLike": cast,
    "Ceil": elementwise(np.ceil),
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Div": elementwise(divide),
    "Equal": elementwise(np.equal),
    "Expand": expand,
    "Flatten": flatten,
    "Floor": elementwise(np.floor),
    "Gather": gather,
    "Identity": lambda node, inputs, budget: present(inputs[0]),
    "Mul": elementwise(np.multiply),
    "Neg": elementwise(np.negative),
    "ReduceProd": reduce_prod,
    "Reshape": reshape,
    "Shape": shape,
    "Slice": slice_,
    "Sqrt": elementwise(np.sqrt),
    "Squeeze": lambda node, inputs, budget: present(inputs[0]).reshape(
        squeezed(present(inputs[0]).shape, axes_of(node, inputs, since=13))
    ),
    "Sub": elementwise(np.subtract),
    "Transpose": transpose,
    "Unsqueeze": lambda node, inputs, budget: present(inputs[0]).reshape(
        unsqueezed(present(inputs[0]).shape, axes_of(node, inputs, since=13))
    ),
    "Where": elementwise(np.where),
}
