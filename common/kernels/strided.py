"""How arrays are traversed: several strided ones together in few dimensions, one along a dimension."""

import math
from typing import Any


def coalesce_dims(shape: tuple[int, ...], *steps: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Merge dimensions where all arrays allow it; returns (size, stride of each array) per dimension, outermost first.

    shape   sizes in the order of traversal
    steps   strides in elements, one tuple per array

    Dimensions of size 1 are dropped. Two neighbours merge if for every array outer stride = inner stride · inner size.
    """
    dimensions: list[tuple[int, ...]] = []
    for size, *inner in zip(shape, *steps, strict=True):
        if size == 1:
            continue
        if dimensions and all(outer == step * size for outer, step in zip(dimensions[-1][1:], inner, strict=True)):
            dimensions[-1] = (dimensions[-1][0] * size, *inner)
        else:
            dimensions.append((size, *inner))
    return dimensions


def pad_to_4d(dimensions: list[tuple[int, ...]], arrays: int) -> list[tuple[int, ...]]:
    """Prepend dimensions of size 1 to at most four dimensions (size, stride of each of `arrays` arrays)."""
    return [(1,) + (0,) * arrays] * (4 - len(dimensions)) + dimensions


def around(shape: tuple[int, ...], dim: Any, layout: str) -> tuple[int, int, int]:
    """(outer, size, inner): the elements before, along and after dimension `dim` in the order of memory of a layout.

    dim: negative from the end. ValueError unless it is a dimension of the shape.
    """
    rank = len(shape)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise ValueError(f"dim must be an integer from {-rank} to {rank - 1}, got {dim!r}")
    order = (0, 2, 3, 1) if layout == "NHWC" and rank == 4 else tuple(range(rank))
    sizes = [shape[i] for i in order]
    at = order.index(dim % rank)
    return math.prod(sizes[:at]), sizes[at], math.prod(sizes[at + 1 :])
