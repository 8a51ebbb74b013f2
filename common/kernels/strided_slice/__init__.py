"""strided_slice: every step-th element of a range of each dimension, copied."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import strided
from ..ladder import Ladder, Rung

THREADS = 256  # per block

ladder = Ladder(__file__, {"naive": Rung(layouts=layout.LAYOUTS)})


@cuda.operator
def strided_slice(
    x: Any,
    starts: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int] | None = None,
    *,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[i, j, …] = x[starts[0] + i·steps[0], starts[1] + j·steps[1], …], of shape `sizes`.

    x: an array of any shape, C-contiguous or NHWC, float32 or float16; out: in the same layout.
    starts, sizes, steps: one integer per dimension of x. Every element taken must lie in x; a negative step goes
    backwards. steps: 1 each by default. At most four dimensions may remain after merging those that are copied whole.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    shape = tuple(x.shape)
    first, size = _integers("starts", starts, shape), _integers("sizes", sizes, shape)
    step = _integers("steps", (1,) * len(shape) if steps is None else steps, shape)
    for dim, (extent, at, count, by) in enumerate(zip(shape, first, size, step, strict=True)):
        if count < 1 or not 0 <= at < extent or not 0 <= at + (count - 1) * by < extent:
            raise ValueError(
                f"starts, sizes and steps must stay in the {extent} elements of dimension {dim} of x,"
                f" got {at}, {count} and {by}"
            )
    if out is not None:
        checks.array("out", out, size, like=x, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x, out=out)
    out = checks.output(out, size, like=x, layout=where)
    checks.apart(out, x=x)
    chosen = ladder.choose(variant, x.dtype, where)

    strides = layout.strides(shape, where)
    order = (0, 2, 3, 1) if where == "NHWC" else range(len(shape))
    taken = tuple(size[i] for i in order), tuple(strides[i] * step[i] for i in order)
    dimensions = strided.coalesce_dims(*taken)
    if len(dimensions) > 4:
        raise ValueError(f"sizes must leave at most four dimensions to walk, got {size} of x {shape}")
    extents, strides_of = zip(*strided.pad_to_4d(dimensions, 1), strict=True)
    start = sum(at * stride for at, stride in zip(first, strides, strict=True))
    kernel = ladder.kernel(chosen, x.dtype)
    arrays = map(layout.as_stored, (x, out))
    kernel((checks.blocks(out.size, THREADS),), (THREADS,), (*arrays, start, *extents[1:], *strides_of, out.size))
    return out


def _integers(name: str, values: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    given = tuple(values) if isinstance(values, (tuple, list)) else ()
    if len(given) != len(shape) or not all(isinstance(value, (int, np.integer)) for value in given):
        raise ValueError(f"{name} must be one integer per dimension of x {shape}, got {values!r}")
    return tuple(int(value) for value in given)
