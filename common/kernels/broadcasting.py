"""What the elementwise operators of two arrays share: they broadcast dimensions of size 1, in either layout."""

import math
from typing import Any

from ..cuda import checks, layout
from . import strided, vectors
from .ladder import Ladder

THREADS = 256  # per block


def launch(ladder: Ladder, a: Any, b: Any, out: Any, variant: str | None, **switches: Any) -> Any:
    """Check the arrays, allocate `out` unless it is given, and launch a rung; returns `out`.

    switches: further -D options of the kernel, whose parameters are as in multiply's rungs.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout or variant is invalid.
    """
    checks.array("a", a, None, allowed=layout.LAYOUTS)
    checks.array("b", b, None, like=a, allowed=layout.LAYOUTS)
    shape = _broadcast(tuple(a.shape), tuple(b.shape))
    if out is not None:
        checks.array("out", out, shape, like=a, allowed=layout.LAYOUTS)
    where = layout.shared_layout(a=a, b=b, out=out)
    out = checks.output(out, shape, like=a, layout=where)
    checks.apart(out, in_place=True, a=a, b=b)
    chosen = ladder.choose(variant, a.dtype, where)

    order = (0, 2, 3, 1) if where == "NHWC" else range(len(shape))
    steps = [_steps(array, where) for array in (a, b)]
    dimensions = strided.coalesce_dims(*(tuple(of[i] for i in order) for of in (shape, *steps)))
    if len(dimensions) > 4:
        raise ValueError(f"a and b must alternate in what is broadcast less often, got {a.shape} and {b.shape}")
    sizes, a_steps, b_steps = zip(*strided.pad_to_4d(dimensions, 2), strict=True)
    rows, columns = math.prod(sizes[:3]), sizes[3]
    vector = 1
    if chosen == "vectorised":
        in_rows = [array for array, step in ((a, a_steps[3]), (b, b_steps[3])) if step]
        switches["VECTOR"] = vector = vectors.vector_width(out, *in_rows, row=columns if rows > 1 else 0)
    blocks = checks.blocks(rows * checks.blocks(columns, vector), THREADS)
    arrays = map(layout.as_stored, (a, b, out))
    kernel = ladder.kernel(chosen, a.dtype, **switches)
    kernel((blocks,), (THREADS,), (*arrays, *sizes[1:], *a_steps, *b_steps, out.size))
    return out


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result. Raises ValueError if the shapes cannot be broadcast."""
    if len(a) != len(b) or not all(one == other or 1 in (one, other) for one, other in zip(a, b, strict=True)):
        raise ValueError(f"b must have shape {a}, but for dimensions of size 1 in either of them, got {b}")
    return tuple(max(sizes) for sizes in zip(a, b, strict=True))


def _steps(array: Any, where: str) -> tuple[int, ...]:
    """The strides of an array in elements, 0 in dimensions of size 1, which are broadcast."""
    strides = layout.strides(tuple(array.shape), where)
    return tuple(0 if size == 1 else stride for size, stride in zip(array.shape, strides, strict=True))
