"""softmax along one dimension."""

import math
from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def softmax(x: Any, dim: int = -1, *, out: Any = None, variant: str | None = None) -> Any:
    """out = exp(x) / sum(exp(x)) along dimension dim (negative: from the end), without overflow.

    x, out: of one shape with at least one dimension, C-contiguous, float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None)
    if x.ndim == 0:
        raise ValueError("x must have at least one dimension, got shape ()")
    if not isinstance(dim, int) or not -x.ndim <= dim < x.ndim:
        raise ValueError(f"dim must be an integer from {-x.ndim} to {x.ndim - 1}, got {dim!r}")
    out = checks.output(out, x.shape, like=x)
    checks.apart(out, x=x)
    columns, inner = x.shape[dim], math.prod(x.shape[dim % x.ndim + 1 :])
    rows, threads = x.size // columns, 64
    ladder.kernel(ladder.choose(variant, x.dtype), x.dtype)(
        (checks.blocks(rows, threads),), (threads,), (x, out, rows, columns, inner)
    )
    return out
