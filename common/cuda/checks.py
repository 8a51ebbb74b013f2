"""Checks of a launcher's arguments. Every error names the argument, what was expected and what was passed."""

import math
from typing import Any

import numpy as np

from . import layout as layouts

MAX_ELEMENTS = 2**31 - 1  # kernels index with a 32-bit int
DTYPES = (np.dtype(np.float32), np.dtype(np.float16))


def array(
    name: str,
    value: Any,
    shape: tuple | None,
    like: Any = None,
    allowed: tuple[str, ...] = ("NCHW",),
    dtypes: tuple[np.dtype, ...] = DTYPES,
) -> Any:
    """Return `value` if it is an array with the required properties.

    name      the argument, for errors
    shape     None in place of a size: any size; None in place of the shape: any shape
    like      an array whose dtype `value` must have; None: any of `dtypes`
    allowed   memory layouts, of layout.LAYOUTS; dense

    TypeError if it is not an array or has a wrong dtype; ValueError for a wrong shape, layout or number of elements.
    """
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise TypeError(f"{name} must be an array, got {type(value).__name__}")
    if np.dtype(value.dtype) not in dtypes:
        raise TypeError(f"{name} must be {' or '.join(map(str, dtypes))}, got {value.dtype}")
    if like is not None and value.dtype != like.dtype:
        raise TypeError(f"{name} must be {like.dtype} as the first argument is, got {value.dtype}")
    if shape is not None and not (
        len(value.shape) == len(shape)
        and all(want in (None, size) for want, size in zip(shape, value.shape, strict=True))
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(value.shape)}")
    size(name, tuple(value.shape))
    if not any(layouts.has(value, layout) for layout in allowed):
        wanted = "C-contiguous" if allowed == ("NCHW",) else f"dense in {' or '.join(allowed)}"
        raise ValueError(f"{name} must be {wanted}, got strides {value.strides} for shape {tuple(value.shape)}")
    return value


def size(name: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array of this shape has from 1 to MAX_ELEMENTS elements."""
    if not 0 < math.prod(shape) <= MAX_ELEMENTS:
        raise ValueError(f"{name} must have from 1 to {MAX_ELEMENTS} elements, got shape {shape}")


def output(out: Any, shape: tuple[int, ...], like: Any, layout: str = "NCHW") -> Any:
    """`out`, checked, or if it is None a new array of this shape and layout, with the dtype of `like`.

    ValueError and TypeError as of `array`.
    """
    if out is None:
        size("out", shape)
        return layouts.empty(shape, like.dtype, layout)
    return array("out", out, shape, like, allowed=(layout,), dtypes=(np.dtype(like.dtype),))


def apart(out: Any, *, in_place: bool = False, **arrays: Any) -> None:
    """Raise ValueError, naming both arguments, if `out` shares memory with an input.

    The kernels declare their pointers `__restrict__`: the compiler may load an input before or after a store to `out`.

    in_place   whether `out` may be exactly an input: of an operator that reads each element before it writes it
    arrays     the inputs by name; None for one that is not given
    """
    first, end = _span(out)
    for name, array in arrays.items():
        if array is None:
            continue
        start, stop = _span(array)
        same = (start, stop, array.strides) == (first, end, out.strides)
        if start < end and first < stop and not (in_place and same):
            partly = " in part: out may be the same array, or one of its own" if in_place and not same else ""
            why = partly or ": the kernel reads one while it writes the other, so out must be an array of its own"
            raise ValueError(f"out and {name} share memory{why}")


def _span(array: Any) -> tuple[int, int]:
    """(first, end) of the addresses of an array's bytes."""
    pointer = getattr(array.data, "ptr", None)
    start = array.__array_interface__["data"][0] if pointer is None else pointer
    reach = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    end = start + sum(r for r in reach if r > 0) + array.dtype.itemsize
    return start + sum(r for r in reach if r < 0), end


def pair(name: str, value: Any, least: int) -> tuple[int, int]:
    """An integer or a pair (height, width) as a pair of int. ValueError unless all are integers of at least `least`."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2 or not all(isinstance(v, (int, np.integer)) and v >= least for v in values):
        raise ValueError(f"{name} must be an integer of at least {least} or a pair of them, got {value!r}")
    return int(values[0]), int(values[1])


def at_least_zero(name: str, value: Any) -> float:
    """`value` as a float. ValueError unless it is a finite number of at least 0."""
    if not isinstance(value, (int, float, np.number)) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
    return float(value)


Pads = tuple[tuple[int, int], tuple[int, int]]  # (top, bottom), (left, right)


def padding(value: Any) -> Pads:
    """An integer, a pair (height, width) or ((top, bottom), (left, right)), as the latter. Errors as of `pair`."""
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, (tuple, list)) for v in value):
        return pair("padding", value[0], 0), pair("padding", value[1], 0)
    height, width = pair("padding", value, 0)
    return (height, height), (width, width)


def windows(extent: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int) -> int:
    """The output size along one dimension: (extent + Σ pads − dilation·(kernel − 1) − 1) // stride + 1.

    pads: (before, after). ValueError if no window fits.
    """
    count = (extent + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
    if count < 1:
        reach = dilation * (kernel - 1) + 1
        raise ValueError(f"the kernel reaches over {reach} pixels, but the padded input has {extent + sum(pads)}")
    return count


def pool_windows(extent: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil_mode: bool) -> int:
    """`windows` of a pooling; ceil_mode: and a partial one at the end if it begins in the image or before."""
    count = windows(extent, kernel, stride, pads, dilation)
    if ceil_mode:
        room = extent + sum(pads) - dilation * (kernel - 1) - 1
        count = blocks(room, stride) + 1
        count -= (count - 1) * stride >= extent + pads[0]  # it would start beyond the image
    return count


def convolution(
    x: tuple[int, ...], weight: tuple[int, ...], stride: Any, pads: Any, dilation: Any, groups: Any
) -> tuple[tuple[int, int], Pads, tuple[int, int], tuple[int, int, int, int]]:
    """(stride, padding, dilation, output shape) of a convolution of arrays of these shapes, all normalized.

    x: (N, C, H, W). weight: (O, C/groups, kH, kW). stride, dilation: as of `pair`; pads: as of `padding`. The output is
    (N, O, oH, oW). ValueError names the argument that does not fit.
    """
    n, c, h, w = x
    if not isinstance(groups, int) or groups < 1 or c % groups:
        raise ValueError(f"groups must be an integer that divides the {c} channels of x, got {groups!r}")
    if len(weight) != 4 or weight[1] != c // groups:
        raise ValueError(f"weight must have shape (any, {c // groups}, any, any), got {tuple(weight)}")
    o, _, kh, kw = weight
    if o % groups:
        raise ValueError(f"groups must divide the {o} output channels of weight, got {groups}")
    s, d = pair("stride", stride, 1), pair("dilation", dilation, 1)
    rows, columns = padding(pads)
    return s, (rows, columns), d, (n, o, windows(h, kh, s[0], rows, d[0]), windows(w, kw, s[1], columns, d[1]))


ACTIVATIONS = {None: (-math.inf, math.inf), "relu": (0.0, math.inf), "relu6": (0.0, 6.0)}


def bounds(activation: Any) -> tuple[np.float32, np.float32]:
    """The range (low, high) that an activation clamps to.

    activation: None (−∞, ∞), "relu", "relu6" or a pair (low, high). ValueError for anything else, and if low > high.
    """
    is_pair = isinstance(activation, (tuple, list)) and len(activation) == 2
    if is_pair and all(isinstance(bound, (int, float, np.number)) for bound in activation):
        low, high = activation
    elif activation is None or (isinstance(activation, str) and activation in ACTIVATIONS):
        low, high = ACTIVATIONS[activation]
    else:
        raise ValueError(f"activation must be None, 'relu', 'relu6' or a pair (low, high), got {activation!r}")
    if not low <= high:
        raise ValueError(f"activation: low must not exceed high, got ({low}, {high})")
    return np.float32(low), np.float32(high)


def blocks(threads: int, per_block: int) -> int:
    """Number of blocks of `per_block` threads that cover `threads` threads: ⌈threads / per_block⌉."""
    return -(-threads // per_block)
