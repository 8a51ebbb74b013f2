"""add_int8: the sum of two int8 arrays with scales of their own, the residual connection of a quantized network."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from .. import vectors
from ..int8 import HIGH, LOW
from ..ladder import Ladder, Rung

ladder = Ladder(
    __file__,
    {
        "naive": Rung({}, arguments.DTYPE, layout.LAYOUTS),
        "vectorised": Rung({"WORDS": 4}, arguments.DTYPE, layout.LAYOUTS),
    },
)

THREADS = 256  # per block


@cuda.operator
def add_int8(
    a: Any,
    b: Any,
    scales: tuple[float, float, float],
    *,
    bounds: tuple[int, int] = (LOW, HIGH),
    offset: int = 0,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = clamp(round(fma(a, scale_a, fma(b, scale_b, shift))), *bounds), elementwise.

    a, b, out: int8 arrays of one shape (any) and one layout, C-contiguous or NHWC; out may be a or b. scales: (scale_a,
    scale_b, shift), of int8.residual_scales. bounds: (low, high). offset: 0, or 128 for the numbers of a uint8 model,
    which are that much lower here than they are computed with (int8.add). Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    checks.array("a", a, None, allowed=layout.LAYOUTS, dtypes=arguments.INT8)
    checks.array("b", b, a.shape, allowed=layout.LAYOUTS, dtypes=arguments.INT8)
    factors, limits = arguments.numbers("scales", scales, 3), arguments.clamp(bounds)
    lower = arguments.offset("offset", offset)
    where = layout.shared_layout(a=a, b=b)
    out = checks.output(out, a.shape, like=a, layout=where)
    checks.apart(out, in_place=True, a=a, b=b)
    width = vectors.vector_width(a, b, out)
    chosen = ladder.choose(variant, a.dtype, where, best=["vectorised" if width >= 4 else "naive"])
    if chosen == "vectorised" and width < 4:
        raise ValueError("add_int8: variant 'vectorised' takes arrays that begin at multiples of 4 bytes")
    words = width // 4 if chosen == "vectorised" else 1
    kernel = ladder.kernel(chosen, a.dtype, **({"WORDS": words} if chosen == "vectorised" else {}))
    per_thread = 4 * words if chosen == "vectorised" else 1
    arrays = map(layout.as_stored, (a, b, out))
    kernel((checks.blocks(a.size, THREADS * per_thread),), (THREADS,), (*arrays, *factors, lower, *limits, a.size))
    return out
