"""QuantizeLinear and DequantizeLinear: layers, or, of constants, the numbers themselves with their grid."""

import math
from dataclasses import replace

import numpy as np

from ..constants import normalize_axes
from ..errors import InvalidModel
from ..grids import RANGES, Grid
from ..layers import Dequantize, Quantize
from ..node import Node
from ..tensors import element_type
from ..translation import Activation, Translation


def quantize_linear(state: Translation, node: Node) -> Activation | np.ndarray:
    """QuantizeLinear as a Quantize layer; of a constant its codes."""
    node.integer("saturate", 1)  # affects 8-bit floats only
    if node.integer("precision", 0):
        raise node.unsupported("it divides in another type than its input's (precision)")
    zero_point, kind = state.constant(node, 2), node.integer("output_dtype", 0)
    dtype = np.dtype(np.uint8) if not kind else element_type(kind, str(node))
    if zero_point is not None:
        dtype = zero_point.dtype
    source = state.value(node, 0)
    if source is None:
        raise node.invalid("input 0 is missing")
    if source.dtype != np.float32:
        raise node.unsupported(f"its input is {source.dtype}, not float32")
    grid, axis = grid_of(state, node, source.shape, dtype)
    if isinstance(source, np.ndarray):
        state.budget.take(source.shape)
        return np.moveaxis(grid.codes(np.moveaxis(source, axis, 0)), 0, axis)
    return replace(on_grid(state, node, Quantize, grid), dtype=dtype)


def dequantize_linear(state: Translation, node: Node) -> Activation | np.ndarray:
    """DequantizeLinear as a Dequantize layer; of a constant its numbers, whose grid is kept in `state.grids`."""
    if node.integer("output_dtype", 0):
        raise node.unsupported("it has an output_dtype of its own")
    source = state.value(node, 0)
    if source is None:
        raise node.invalid("input 0 is missing")
    zero_point = state.constant(node, 2)
    if zero_point is not None and zero_point.dtype != source.dtype:
        raise node.invalid(f"its zero point is {zero_point.dtype}, its input is {source.dtype}")
    grid, axis = grid_of(state, node, source.shape, source.dtype)
    if isinstance(source, np.ndarray):
        state.budget.take(source.shape)
        state.grids[node.outputs[0]] = grid
        return np.moveaxis(grid.values(np.moveaxis(source, axis, 0)), 0, axis)
    return replace(on_grid(state, node, Dequantize, grid), dtype=np.dtype(np.float32))


def on_grid(state: Translation, node: Node, kind: type, grid: Grid) -> Activation:
    """Append a Quantize or Dequantize layer of the node's first input. UnsupportedModel for more than one scale."""
    if grid.is_per_channel:
        raise node.unsupported(f"it has {len(grid.scale)} scales for an activation, not one")
    if grid.dtype == "int32":
        raise node.unsupported("activations are int8 or uint8 here, not int32")
    return state.pointwise(kind, node, state.activation(node), grid=grid)


def grid_of(state: Translation, node: Node, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Grid, int]:
    """(the grid that scale and zero point, inputs 1 and 2, describe; the axis of its scales, 0 for a single one).

    InvalidModel for scales that are not positive finite numbers, and for shapes that do not fit; UnsupportedModel for
    other types than those of RANGES and for scales per block.
    """
    if dtype.name not in RANGES:
        raise node.unsupported(f"its integers are {dtype.name}, not {', '.join(RANGES)}")
    if node.integer("block_size", 0):
        raise node.unsupported("it has scales per block (block_size)")
    scale, zero_point = state.constant(node, 1), state.constant(node, 2)
    axis = node.integer("axis", 1)
    if scale is None:
        raise node.invalid("its scale is missing")
    if scale.dtype != np.float32:
        raise node.unsupported(f"its scale is {scale.dtype}, not float32")
    if zero_point is not None and math.prod(zero_point.shape) != scale.size:
        raise node.invalid(f"it has {scale.size} scales and {zero_point.size} zero points")
    if scale.size == 1:
        axis = 0
    else:
        if scale.ndim != 1:
            raise node.unsupported(f"its scales have the shape {scale.shape}, not one per channel")
        try:
            (axis,) = normalize_axes((axis,), len(shape))
        except InvalidModel as error:
            raise node.invalid(error) from error
        if scale.size != shape[axis]:
            raise node.invalid(f"it has {scale.size} scales for {shape[axis]} channels")
    try:
        return Grid.of(scale, 0 if zero_point is None else zero_point, dtype.name), axis
    except ValueError as error:
        raise node.invalid(error) from error
