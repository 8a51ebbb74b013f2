"""Normalisation by statistics of the input: LayerNormalization, GroupNormalization, InstanceNormalization."""

import numpy as np

from ..constants import normalize_axes
from ..layers import GroupNorm, LayerNorm
from ..node import Node
from ..translation import Activation, Translation
from .helpers import decimal


def layer_normalization(state: Translation, node: Node) -> Activation:
    """LayerNormalization along one axis, as a LayerNorm layer. Of several axes all but one must have size 1."""
    source = state.activation(node)
    weight, bias = state.constant(node, 1), state.constant(node, 2)
    node.integer("stash_type", 1)  # the type of further outputs
    rank = len(source.shape)
    (first,) = normalize_axes((node.integer("axis", -1),), rank)
    if first == 0:
        raise node.unsupported("it normalises over the batch")
    along = [axis for axis in range(first, rank) if source.shape[axis] > 1]
    if len(along) > 1:
        raise node.unsupported(f"it normalises over {len(along)} axes of {source.shape} at once, not over one")
    if source.dims is None:
        source = state.materialize(node, source, node.inputs[0])
    axis = along[0] if along else rank - 1
    state.check_type(node, source, weight, bias)
    if weight is None:
        raise node.invalid("its scale is missing")
    return state.pointwise(
        LayerNorm,
        node,
        source,
        dim=source.dims[axis] if source.dims else axis,
        eps=decimal(node.number("epsilon", 1e-5)),
        weight=per_feature(state, node, 1, weight, source.shape[first:]),
        bias=per_feature(state, node, 2, bias, source.shape[first:]),
    )


def per_feature(
    state: Translation, node: Node, position: int, array: np.ndarray | None, shape: tuple[int, ...]
) -> str | None:
    """The parameter for a constant of `shape`, that of the normalised axes, of which one is over 1; None if omitted."""
    if array is None:
        return None
    if array.shape != shape:
        raise node.invalid(f"its input {position} has the shape {array.shape}, not {shape}")
    return state.parameter(node.inputs[position], array.reshape(-1), node)


def group_normalization(state: Translation, node: Node) -> Activation:
    """GroupNormalization as a layer; before operator set 21 its scale and bias are per group."""
    groups = node.integer("num_groups", 0)
    node.integer("stash_type", 1)
    return grouped(state, node, state.direct(node), groups)


def instance_normalization(state: Translation, node: Node) -> Activation:
    """InstanceNormalization as a GroupNorm; its channels may be those of a layer's output in groups, as PyTorch's.

    PyTorch writes a GroupNorm as InstanceNormalization of (N, groups, −1), and weight and bias after it.
    """
    source = state.activation(node)
    if len(source.shape) < 3:
        raise node.invalid(f"its input of shape {source.shape} has no pixels")
    groups = source.shape[1]
    whole = len(source.stored) > 1 and source.stored[1] % groups == 0
    if source.permuted or not whole:
        source = state.materialize(node, source, node.inputs[0])
    return grouped(state, node, source, groups)


def grouped(state: Translation, node: Node, source: Activation, groups: int) -> Activation:
    """A GroupNorm layer of `source`, whose scale and bias, inputs 1 and 2, are per group or per channel."""
    channels = source.stored[1] if len(source.stored) > 1 else 0
    if groups < 1 or channels % groups:
        raise node.invalid(f"{groups} groups do not divide the channels of {source.stored}")
    fields: dict[str, str | None] = {"weight": None, "bias": None}
    for position, (name, neutral) in enumerate((("weight", 1), ("bias", 0)), start=1):
        array = state.constant(node, position)
        if array is None or array.shape not in ((groups,), (channels,)):
            raise node.invalid(f"its input {position} is not of shape ({groups},) or ({channels},)")
        state.check_type(node, source, array)
        if (array != neutral).any():
            full = array if len(array) == channels else np.repeat(array, channels // groups)
            fields[name] = state.parameter(node.inputs[position], full, node)
    eps = decimal(node.number("epsilon", 1e-5))
    return state.pointwise(GroupNorm, node, source, num_groups=groups, eps=eps, **fields)
