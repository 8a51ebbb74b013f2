"""Concatenation, slices, padding, views, and nodes without a computation."""

import math
from dataclasses import replace

import numpy as np
from onnx import TensorProto

from ..constants import axes_of, integers, normalize_axes, reshaped, slices, squeezed, unsqueezed
from ..layers import (
    Concat,
    Pad,
    Slice,
)
from ..node import Node
from ..tensors import FLOATS, element_type
from ..translation import Activation, Translation
from .helpers import decimal, scalar


def concat(state: Translation, node: Node) -> Activation:
    """Concat of computed tensors, along any axis except the batch."""
    sources = [state.activation(node, position) for position in range(len(node.inputs))]
    if len({(source.dims, len(source.shape)) for source in sources}) > 1 or sources[0].dims is None:
        sources = [state.direct(node, position) for position in range(len(node.inputs))]
    (axis,) = normalize_axes((node.integer("axis", 0),), len(sources[0].shape))
    if axis == 0:
        raise node.unsupported("it joins along the batch")
    if len({source.dtype for source in sources}) > 1:
        raise node.invalid("its inputs differ in type")
    dims = sources[0].dims or tuple(range(len(sources[0].shape)))
    result = state.emit(Concat, node, sources, dim=dims[axis])
    return replace(result, shape=tuple(result.stored[dim] for dim in dims), dims=dims)


def slice_(state: Translation, node: Node) -> Activation:
    """Slice of any axes except the batch, with constant bounds and steps, as a layer."""
    source = state.activation(node)
    constants = [None, *(state.constant(node, position) for position in range(1, len(node.inputs)))]
    try:
        taken = [
            range(*one.indices(size))
            for one, size in zip(slices(node, constants, source.shape), source.shape, strict=True)
        ]
    except (ValueError, IndexError, TypeError) as error:
        raise node.invalid(f"its bounds, axes or steps do not fit {source.shape}: {error}") from error
    return cut(state, node, source, dict(enumerate(taken)))


def split(state: Translation, node: Node) -> Activation:
    """Split along any axis except the batch: a Slice layer for each of its outputs."""
    source = state.activation(node)
    (axis,) = normalize_axes((node.integer("axis", 0),), len(source.shape))
    extent, outputs = source.shape[axis], len(node.outputs)
    sizes = axes_of(node, [None, state.constant(node, 1)], since=13, attribute="split")
    if sizes is None:
        if node.opset >= 18 and node.integer("num_outputs", 0) != outputs:
            raise node.invalid(f"its num_outputs is not its {outputs} outputs")
        if node.opset < 18 and extent % outputs:
            raise node.invalid(f"{extent} elements cannot be split into {outputs} equal parts")
        part = -(-extent // outputs)
        sizes = (*(part,) * (outputs - 1), extent - part * (outputs - 1))
    if len(sizes) != outputs or min(sizes) < 0 or sum(sizes) != extent:
        raise node.invalid(f"its parts {sizes} are not {outputs} that make the {extent} elements of axis {axis}")
    results, start = [], 0
    for name, size in zip(node.outputs, sizes, strict=True):
        taken = {axis: range(start, start + size)}
        results.append(cut(state, node, source, taken, name) if name else source)
        start += size
    for name, result in zip(node.outputs[1:], results[1:], strict=True):
        if name:
            state.values[name], state.writer[name] = result, node.name
    return results[0]


def gather(state: Translation, node: Node) -> Activation:
    """Gather of evenly spaced constant indices along an axis except the batch, as a Slice; x[:, 2] has one index.

    PyTorch's exporter also writes `as_strided` as Gather of all elements in one axis; those in their order are a view.
    """
    source, indices = state.activation(node), state.constant(node, 1)
    if indices is None or indices.dtype.kind not in "iu" or indices.size == 0:
        raise node.invalid("its indices are missing or no integers")
    (axis,) = normalize_axes((node.integer("axis", 0),), len(source.shape))
    if source.in_line:
        n = source.stored[0]
        batch = state.file_batch or n  # of which the indices in the file are
        every = np.arange(math.prod(source.shape) // n * batch)
        if indices.shape[:1] != (batch,) or not np.array_equal(indices.ravel(), every):
            raise node.unsupported("it takes elements of all samples in another order than theirs")
        return state.view(node, source, (n, *indices.shape[1:]))
    extent = source.shape[axis]
    taken = [int(i) + extent if i < 0 else int(i) for i in indices.ravel()]
    step = taken[1] - taken[0] if len(taken) > 1 else 1
    if indices.ndim > 1 or step == 0 or taken != list(range(taken[0], taken[0] + step * len(taken), step)):
        raise node.unsupported("its indices are not evenly spaced along one axis")
    if not 0 <= min(taken) <= max(taken) < extent:
        raise node.invalid(f"its indices do not lie in the {extent} elements of axis {axis}")
    result = cut(state, node, source, {axis: range(taken[0], taken[0] + step * len(taken), step)})
    return result if indices.ndim else state.view(node, result, (*source.shape[:axis], *source.shape[axis + 1 :]))


def cut(
    state: Translation, node: Node, source: Activation, taken: dict[int, range], output: str | None = None
) -> Activation:
    """The elements `taken` of each axis, all of those that are not named, by a Slice layer; `source` if that is all.

    output: the output of the node that the layer writes; the first by default.
    """
    whole = {axis: range(size) for axis, size in enumerate(source.shape)}
    taken = {axis: chosen for axis, chosen in taken.items() if chosen != whole[axis]}
    if not taken:
        return source
    if 0 in taken:
        raise node.unsupported("it cuts along the batch")
    if source.dims is None:
        source = state.materialize(node, source, node.inputs[0])
    dims = source.dims or tuple(range(len(source.shape)))
    along = [range(size) for size in source.stored]
    for axis, chosen in taken.items():
        along[dims[axis]] = chosen
    result = state.emit(
        Slice,
        node,
        [source],
        output=output,
        starts=tuple(chosen.start for chosen in along[1:]),
        sizes=tuple(len(chosen) for chosen in along[1:]),
        steps=tuple(chosen.step if len(chosen) > 1 else 1 for chosen in along[1:]),
    )
    return replace(result, shape=tuple(result.stored[dim] for dim in dims), dims=dims)


def pad(state: Translation, node: Node) -> Activation:
    """Pad of height and width with a constant, as a layer."""
    source = state.activation(node)
    if source.dims is None:
        source = state.materialize(node, source, node.inputs[0])
    mode = node.text("mode", "constant")
    if mode != "constant":
        raise node.unsupported(f"it pads by {mode}, not with a constant")
    rank = len(source.shape)
    axes: tuple[int, ...] = tuple(range(rank))
    if node.opset < 11:
        pads, value = list(node.integers("pads") or ()), node.number("value", 0.0)
    else:
        pads, constant = integers(state.constant(node, 1)), state.constant(node, 2)
        value = 0.0 if constant is None else scalar(node, constant)
        state.check_type(node, source, constant)
        if node.opset >= 18 and (given := state.constant(node, 3)) is not None:
            normalize_axes(tuple(integers(given)), rank)
            axes = tuple(axis % rank for axis in integers(given))
    if len(pads) != 2 * len(axes):
        raise node.invalid(f"it has {len(pads)} paddings for {len(axes)} axes")
    pairs = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    if source.dims and any(any(pair) and source.dims[axis] not in (2, 3) for axis, pair in pairs.items()):
        source = state.materialize(node, source, node.inputs[0])  # an NHWC image viewed as NCHW
    around = {source.dims[axis] if source.dims else axis: pair for axis, pair in pairs.items()}
    if not any(any(pair) for pair in around.values()):
        return source
    if rank != 4 or any(any(pair) for dim, pair in around.items() if dim not in (2, 3)):
        raise node.unsupported("it pads other axes than height and width")
    if any(min(pair) < 0 for pair in around.values()):
        raise node.unsupported("negative paddings cut the image")
    padding = (around.get(2, (0, 0)), around.get(3, (0, 0)))
    result = state.emit(Pad, node, [source], padding=padding, value=decimal(value))
    dims = source.dims or (0, 1, 2, 3)
    return replace(result, shape=tuple(result.stored[dim] for dim in dims), dims=dims)


def reshape(state: Translation, node: Node) -> Activation:
    """Reshape that keeps the batch first, as a view."""
    source = state.activation(node)
    target = integers(state.constant(node, 1))
    allowzero = node.opset >= 14 and node.flag("allowzero")
    n = source.shape[0]
    if target and target[0] == state.file_batch and target[0] != n:
        target[0] = n  # the target contains the file's batch size, but another one was requested
    return state.view(node, source, reshaped(source.shape, target, allowzero))


def flatten(state: Translation, node: Node) -> Activation:
    """Flatten from axis 1 on, as a view."""
    source = state.activation(node)
    (axis,) = normalize_axes((node.integer("axis", 1),), len(source.shape))
    if axis != 1:
        raise node.unsupported(f"axis {axis} does not keep the batch apart")
    return state.view(node, source, (source.shape[0], math.prod(source.shape[1:])))


def squeeze(state: Translation, node: Node) -> Activation:
    """Squeeze, as a view."""
    source = state.activation(node)
    axes = axes_of(node, [None, state.constant(node, 1)], since=13)
    return state.view(node, source, squeezed(source.shape, axes))


def unsqueeze(state: Translation, node: Node) -> Activation:
    """Unsqueeze, as a view."""
    source = state.activation(node)
    axes = axes_of(node, [None, state.constant(node, 1)], since=13)
    return state.view(node, source, unsqueezed(source.shape, axes))


def transpose(state: Translation, node: Node) -> Activation:
    """Transpose that keeps the batch first, as a view."""
    source = state.activation(node)
    perm = node.integers("perm") or tuple(reversed(range(len(source.shape))))
    return state.transposed(node, source, perm)


def shape(state: Translation, node: Node) -> np.ndarray:
    """Shape of a computed tensor, as a constant: all shapes are known."""
    source = state.activation(node)
    start, end = 0, len(source.shape)
    if node.opset >= 15:
        start, end = node.integer("start", 0), node.integer("end", end)
    return np.array(source.shape[start:end], np.int64)


def identity(state: Translation, node: Node) -> Activation:
    """Identity: the input itself."""
    return state.activation(node)


def dropout(state: Translation, node: Node) -> Activation:
    """Dropout in inference mode: the input itself."""
    node.integer("seed", 0)
    if node.opset < 12:
        node.number("ratio", 0.5)
    else:
        training = state.constant(node, 2)
        if training is not None and training.any():
            raise node.unsupported("it is in training mode")
    return state.activation(node)


def cast(state: Translation, node: Node) -> Activation | np.ndarray:
    """Cast, CastLike between floating-point types: no layer, because all layers compute in float32."""
    source = state.value(node, 0)
    if not isinstance(source, np.ndarray):
        source = state.activation(node)
    if node.op_type == "CastLike":
        like = state.value(node, 1)
        if like is None:
            raise node.invalid("input 1 is missing")
        dtype = like.dtype
    else:
        dtype = element_type(node.integer("to", TensorProto.UNDEFINED), str(node))
    node.integer("saturate", 1)
    node.text("round_mode", "up")
    if isinstance(source, np.ndarray):  # a constant with the dtype of a computed tensor
        state.budget.take(source.shape)
        return source.astype(dtype)
    if dtype not in FLOATS:
        raise node.unsupported(f"it makes {dtype} of floating-point numbers")
    return replace(source, dtype=dtype)
