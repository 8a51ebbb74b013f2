"""Memory layouts of (N, C, H, W) arrays: NCHW (C order) or NHWC (channels last).

Shapes are always the logical (N, C, H, W); only the strides differ, as with torch.channels_last.
"""

import math
from typing import Any

import numpy as np

LAYOUTS = ("NCHW", "NHWC")


def check(layout: Any) -> str:
    """Return `layout` if it is one of LAYOUTS. ValueError otherwise."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    return layout


def strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides in elements of a dense array of this logical shape. Arrays without four dimensions are in C order."""
    if check(layout) == "NHWC" and len(shape) == 4:
        _, c, h, w = shape
        return h * w * c, 1, w * c, c
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def has(array: Any, layout: str) -> bool:
    """Whether an array is dense in this layout. Strides of dimensions of size 1 are ignored."""
    wanted = strides(tuple(array.shape), layout)
    itemsize = np.dtype(array.dtype).itemsize
    return all(
        size == 1 or stride == want * itemsize
        for size, stride, want in zip(array.shape, array.strides, wanted, strict=True)
    )


def shared_layout(**arrays: Any) -> str:
    """The layout that all arrays have; NCHW if they have both, as arrays of one channel or one pixel do.

    arrays: by name; None is ignored. ValueError, with the strides, if there is no such layout.
    """
    given = {name: array for name, array in arrays.items() if array is not None}
    for layout in LAYOUTS:
        if all(has(array, layout) for array in given.values()):
            return layout
    found = ", ".join(f"{name} {tuple(array.shape)} with strides {array.strides}" for name, array in given.items())
    raise ValueError(f"all arrays must be NCHW, or all NHWC (common.cuda.to_layout brings one there), got {found}")


def empty(shape: tuple[int, ...], dtype: Any, layout: str) -> Any:
    """A new uninitialized array of the backend, of this logical shape and memory layout."""
    from .arrays import empty as allocate

    return shaped(allocate(math.prod(shape), dtype), shape, layout)


def shaped(elements: Any, shape: tuple[int, ...], layout: str) -> Any:
    """A view of a dense one-dimensional array as this logical shape, in this memory layout."""
    if check(layout) == "NCHW" or is_plain(shape):
        return elements.reshape(shape)
    n, c, h, w = shape
    return elements.reshape(n, h, w, c).transpose(0, 3, 1, 2)


def is_plain(shape: tuple[int, ...]) -> bool:
    """Whether all layouts of this shape are equal: not four dimensions, one channel, or one pixel."""
    return len(shape) != 4 or shape[1] == 1 or shape[2] == shape[3] == 1


def flat(array: Any) -> Any:
    """A one-dimensional view of a dense array, in the order of memory."""
    return as_stored(array).reshape(-1)


def as_stored(array: Any) -> Any:
    """A C-contiguous view for a launch: (N, H, W, C) for an NHWC array, else the array itself."""
    return array.transpose(0, 2, 3, 1) if len(array.shape) == 4 and not has(array, "NCHW") else array


def to_layout(array: Any, layout: str) -> Any:
    """An (N, C, H, W) array as one of the backend in this memory layout, of the same shape: itself or a copy.

    ValueError for an array without four dimensions.
    """
    from .arrays import asarray, is_native

    check(layout)
    if len(array.shape) != 4:
        raise ValueError(f"array must have shape (N, C, H, W), got {tuple(array.shape)}")
    if is_native(array) and has(array, layout):
        return array
    result = empty(tuple(array.shape), np.dtype(str(array.dtype).removeprefix("torch.")), layout)
    result[...] = asarray(array)
    return result
