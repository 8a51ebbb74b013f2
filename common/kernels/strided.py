"""Arrays walked together by their strides: as few dimensions as that takes."""


def merged(shape: tuple[int, ...], *steps: tuple[int, ...]) -> list[tuple[int, ...]]:
    """(size, step of each array) of the dimensions that are left when neighbours are merged, outermost first.

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


def four(dimensions: list[tuple[int, ...]], arrays: int) -> list[tuple[int, ...]]:
    """The dimensions as four, outermost first, with dimensions of size 1 before them."""
    return [(1,) + (0,) * arrays] * (4 - len(dimensions)) + dimensions
