"""Where the elements of an (N, C, H, W) array lie: NCHW, row by row, or NHWC, pixel by pixel (channels last).

Shapes are PyTorch's logical ones in both; the layout is in the strides alone, as with torch.channels_last.
"""

import math
from typing import Any

import numpy as np

LAYOUTS = ("NCHW", "NHWC")


def check(layout: Any) -> str:
    """The layout, if it is one. ValueError otherwise."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    return layout


def strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides in elements of a dense array of that logical shape; more or fewer than four dimensions lie in C order."""
    if check(layout) == "NHWC" and len(shape) == 4:
        _, c, h, w = shape
        return h * w * c, 1, w * c, c
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def has(array: Any, layout: str) -> bool:
    """Whether an array lies in that layout, without gaps. The stride of a dimension of size 1 is no matter."""
    wanted = strides(tuple(array.shape), layout)
    itemsize = np.dtype(array.dtype).itemsize
    return all(
        size == 1 or stride == want * itemsize
        for size, stride, want in zip(array.shape, array.strides, wanted, strict=True)
    )


def shared_layout(**arrays: Any) -> str:
    """The layout that all the arrays have: NCHW if they have both, as arrays of one channel or one pixel do.

    arrays: by name, or None, which is passed over. ValueError, naming their strides, if there is no such layout.
    """
    given = {name: array for name, array in arrays.items() if array is not None}
    for layout in LAYOUTS:
        if all(has(array, layout) for array in given.values()):
            return layout
    found = ", ".join(f"{name} {tuple(array.shape)} with strides {array.strides}" for name, array in given.items())
    raise ValueError(f"all arrays must be NCHW, or all NHWC (common.cuda.to_layout brings one there), got {found}")


def empty(shape: tuple[int, ...], dtype: Any, layout: str) -> Any:
    """A new array of the backend of that logical shape, in that memory layout."""
    from .arrays import empty as allocate

    return shaped(allocate(math.prod(shape), dtype), shape, layout)


def shaped(elements: Any, shape: tuple[int, ...], layout: str) -> Any:
    """Elements in a row as an array of that logical shape, in that memory layout: a view."""
    if check(layout) == "NCHW" or is_plain(shape):
        return elements.reshape(shape)
    n, c, h, w = shape
    return elements.reshape(n, h, w, c).transpose(0, 3, 1, 2)


def is_plain(shape: tuple[int, ...]) -> bool:
    """Whether arrays of that shape lie the same way in all layouts: no pictures, or of one channel or one pixel."""
    return len(shape) != 4 or shape[1] == 1 or shape[2] == shape[3] == 1


def flat(array: Any) -> Any:
    """The elements of a dense array in the order of memory: a view of one dimension."""
    return as_stored(array).reshape(-1)


def as_stored(array: Any) -> Any:
    """A view in the order of memory, as a launch wants it: (N, H, W, C) of an NHWC array, else the array itself."""
    return array.transpose(0, 2, 3, 1) if len(array.shape) == 4 and not has(array, "NCHW") else array


def to_layout(array: Any, layout: str) -> Any:
    """The array in that memory layout, with the shape that it has, as the backend's: itself if it is so, or a copy."""
    from .arrays import asarray, is_native

    check(layout)
    if len(array.shape) != 4:
        raise ValueError(f"array must have shape (N, C, H, W), got {tuple(array.shape)}")
    if is_native(array) and has(array, layout):
        return array
    result = empty(tuple(array.shape), np.dtype(str(array.dtype).removeprefix("torch.")), layout)
    result[...] = asarray(array)
    return result
