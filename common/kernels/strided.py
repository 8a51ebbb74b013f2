"""Arrays walked together by their strides: as few dimensions as that takes."""


def coalesce_dims(shape: tuple[int, ...], *steps: tuple[int, ...]) -> list[tuple[int, ...]]:
    """(size, step of each array) per dimension, outermost first, neighbouring dimensions merged where they can be.

    shape: of what is walked, in order. steps: of each array, in elements, from one index to the next in each dimension.
    Dimensions of size 1 go; two become one where every array steps over the inner one's whole length in the outer.
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
    """Four dimensions (size, step of each of so many arrays): dimensions of size 1 stand before the given ones."""
    return [(1,) + (0,) * arrays] * (4 - len(dimensions)) + dimensions
