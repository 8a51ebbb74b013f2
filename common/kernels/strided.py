"""Reduce the number of dimensions over which several strided arrays are traversed together."""


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
