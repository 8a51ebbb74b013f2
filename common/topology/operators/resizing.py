"""Images of another size: Resize and its predecessor Upsample."""

import numpy as np

from ..constants import integers, normalize_axes
from ..layers import MAX_EXTENT, RESIZE, Resize
from ..node import Node
from ..tensors import FLOATS
from ..translation import Activation, Translation
from .helpers import decimal, image


def resize(state: Translation, node: Node) -> Activation:
    """Resize and Upsample of height and width to constant sizes or by constant scales, as a Resize layer."""
    source = image(state, node)
    if node.op_type == "Upsample" or node.opset < 11:
        return enlarged(state, node, source)
    how = {
        "mode": node.text("mode", "nearest"),
        "coordinates": node.text("coordinate_transformation_mode", "half_pixel"),
        "rounding": node.text("nearest_mode", "round_prefer_floor"),
    }
    node.number("cubic_coeff_a", -0.75), node.number("extrapolation_value", 0.0)  # of other modes and coordinates
    for name, value in how.items():
        if value not in RESIZE[name]:
            raise node.unsupported(f"its {name} is {value!r}, not one of {', '.join(RESIZE[name])}")
    if node.flag("exclude_outside") or node.flag("antialias"):
        raise node.unsupported("exclude_outside and antialias make filters of other widths")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.unsupported("its sizes are bounds (keep_aspect_ratio_policy), not those of the output")
    if how["mode"] == "linear":
        how["rounding"] = "floor"  # has no effect
    axes = node.integers("axes")
    scales, sizes = state.constant(node, 2), state.constant(node, 3)
    state.constant(node, 1)  # the region of interest, of other coordinates
    scales, sizes = (None if given is None or given.size == 0 else given for given in (scales, sizes))
    if (scales is None) == (sizes is None):
        raise node.invalid("it must have either scales or sizes")
    if sizes is not None:
        size = of_image(node, integers(sizes), (state.file_batch, *source.shape), axes)
        return state.emit(Resize, node, [source], size=size, **how)
    return scaled(state, node, source, of_image(node, numbers(node, scales), (1, 1.0, 1.0), axes), how)


def enlarged(state: Translation, node: Node, source: Activation) -> Activation:
    """Upsample, and Resize before operator set 11: positions are "asymmetric", of the nearest pixel rounded down."""
    mode = node.text("mode", "nearest")
    if mode not in RESIZE["mode"]:
        raise node.unsupported(f"its mode is {mode!r}, not one of {', '.join(RESIZE['mode'])}")
    scales = node.floats("scales") if node.opset < 9 else numbers(node, state.constant(node, 1))
    factors = of_image(node, scales, (1, 1.0, 1.0), None)
    if mode == "nearest" and min(factors) < 1:
        raise node.unsupported("before operator set 11 it rounds differently where it makes the image smaller")
    return scaled(state, node, source, factors, {"mode": mode, "coordinates": "asymmetric", "rounding": "floor"})


def scaled(
    state: Translation, node: Node, source: Activation, scales: tuple[float, float], how: dict[str, str]
) -> Activation:
    """A Resize layer by scales; those that are quotients of the sizes are left out."""
    if not all(0 < scale < MAX_EXTENT for scale in scales):
        raise node.invalid(f"its scales {scales} are not positive numbers")
    extent = source.shape[2:]
    size = tuple(int(np.float32(scale) * np.float32(before)) for scale, before in zip(scales, extent, strict=True))
    exact = all(np.float32(after / before) == scale for after, before, scale in zip(size, extent, scales, strict=True))
    return state.emit(Resize, node, [source], size=size, scales=None if exact else tuple(map(decimal, scales)), **how)


def numbers(node: Node, array: np.ndarray | None) -> list[float]:
    """A constant vector of floating-point numbers. InvalidModel for anything else."""
    if array is None or array.dtype not in FLOATS or array.ndim != 1:
        raise node.invalid("its scales are missing or no vector of floating-point numbers")
    return [float(number) for number in array]


def of_image(node: Node, values: list, kept: tuple, axes: tuple[int, ...] | None) -> tuple:
    """The values for height and width, of those for all axes or for `axes`.

    kept: the values that the batch and the channels may have (two for the batch), which leave them as they are.
    UnsupportedModel for others, InvalidModel for another number of values.
    """
    along = tuple(range(4)) if axes is None else axes
    normalize_axes(along, 4)
    if len(values) != len(along):
        raise node.invalid(f"it has {len(values)} sizes or scales for {len(along)} axes")
    by_axis = dict(zip((axis % 4 for axis in along), values, strict=True))
    if by_axis.get(0, kept[0]) not in kept[:2] or by_axis.get(1, kept[2]) != kept[2] or not {2, 3} <= by_axis.keys():
        raise node.unsupported("it changes other axes than height and width, or one of the two alone")
    return by_axis[2], by_axis[3]
