"""add: the sum of two arrays, the residual connection of a network."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def add(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = a + b, element by element.

    a, b, out: arrays of one shape (any), float32 or float16. ValueError and TypeError name what does not fit.
    """
    checks.array("a", a, None)
    checks.array("b", b, a.shape, like=a)
    out = checks.output(out, a.shape, like=a)
    threads = 256
    ladder.kernel(ladder.choose(variant, a.dtype), a.dtype)(
        (checks.blocks(a.size, threads),), (threads,), (a, b, out, a.size)
    )
    return out
