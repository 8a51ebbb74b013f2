"""binary: elementwise sum, difference, quotient, maximum and minimum of two arrays, with broadcasting."""

from typing import Any

from ... import cuda
from ...cuda import layout
from .. import broadcasting
from ..ladder import Ladder, Rung

FUNCTIONS = ("add", "subtract", "divide", "maximum", "minimum")

ladder = Ladder(__file__, {"naive": Rung({"FUNCTION": "subtract"}, layouts=layout.LAYOUTS)})


@cuda.operator
def binary(a: Any, b: Any, function: str, *, out: Any = None, variant: str | None = None) -> Any:
    """out = function(a, b), elementwise; dimensions of size 1 are broadcast. As in IEEE 754, x / 0 is infinite or NaN.

    function: "add", a + b; "subtract", a - b; "divide", a / b; "maximum" or "minimum", which are
    NaN where a or b is NaN.
    a, b: arrays of equal rank, for example (N, C, H, W) and (N, C, 1, 1); out: of the broadcast shape. All in one
    layout, C-contiguous or NHWC ((N, C, 1, 1) fits both); float32 or float16.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    if function not in FUNCTIONS:
        raise ValueError(f"function must be one of {', '.join(map(repr, FUNCTIONS))}, got {function!r}")
    return broadcasting.launch(ladder, a, b, out, variant, FUNCTION=function)


def subtract(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = a - b; see binary."""
    return binary(a, b, "subtract", out=out, variant=variant)


def divide(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = a / b; see binary."""
    return binary(a, b, "divide", out=out, variant=variant)


def maximum(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = max(a, b); see binary."""
    return binary(a, b, "maximum", out=out, variant=variant)


def minimum(a: Any, b: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = min(a, b); see binary."""
    return binary(a, b, "minimum", out=out, variant=variant)
