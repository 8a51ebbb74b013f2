"""softmax: scores to probabilities, along the last dimension."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def softmax(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = exp(x) / sum(exp(x)) along the last dimension.

    x, out: (..., C), float32 or float16, C-contiguous. ValueError and TypeError name what does not fit.
    """
    checks.array("x", x, None)
    if x.ndim == 0:
        raise ValueError("x must have at least one dimension, got shape ()")
    out = checks.output(out, x.shape, like=x)
    columns = x.shape[-1]
    rows, threads = x.size // columns, 64
    ladder.kernel(ladder.choose(variant, x.dtype), x.dtype)(
        (checks.blocks(rows, threads),), (threads,), (x, out, rows, columns)
    )
    return out
