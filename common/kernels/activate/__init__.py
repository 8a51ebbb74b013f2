"""activate: elementwise sigmoid, hard sigmoid and hard swish, as in MobileNetV3's blocks."""

import math
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

FUNCTIONS = ("sigmoid", "hardsigmoid", "hardswish")
THREADS = 256  # per block

ladder = Ladder(
    __file__,
    {
        "naive": Rung({"FUNCTION": "sigmoid"}, layouts=layout.LAYOUTS),
        "vectorised": Rung({"FUNCTION": "sigmoid", "VECTOR": 4}, layouts=layout.LAYOUTS),
    },
)


@cuda.operator
def activate(
    x: Any,
    function: str,
    *,
    alpha: float = 1 / 6,
    beta: float = 0.5,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = function(x), elementwise; NaN stays NaN.

    function: "sigmoid", 1 / (1 + exp(-x)); "hardsigmoid", min(max(alpha·x + beta, 0), 1); or "hardswish",
    x · min(max(x/6 + 1/2, 0), 1). alpha, beta: used by hardsigmoid only.
    x, out: arrays of one shape (any) and one layout, C-contiguous or NHWC, float32 or float16; out may be x.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    if function not in FUNCTIONS:
        raise ValueError(f"function must be one of {', '.join(map(repr, FUNCTIONS))}, got {function!r}")
    slope, middle = _finite("alpha", alpha), _finite("beta", beta)
    where = layout.shared_layout(x=x)
    out = checks.output(out, x.shape, like=x, layout=where)
    checks.apart(out, in_place=True, x=x)
    chosen = ladder.choose(variant, x.dtype, where)
    switches: dict[str, Any] = {"FUNCTION": function}
    if chosen == "vectorised":
        switches["VECTOR"] = vectors.vector_width(x, out)
    blocks = checks.blocks(x.size, switches.get("VECTOR", 1) * THREADS)
    arrays = map(layout.as_stored, (x, out))
    ladder.kernel(chosen, x.dtype, **switches)((blocks,), (THREADS,), (*arrays, slope, middle, x.size))
    return out


def _finite(name: str, value: Any) -> np.float32:
    if not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return np.float32(value)


def sigmoid(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = 1 / (1 + exp(-x)); see activate."""
    return activate(x, "sigmoid", out=out, variant=variant)


def hardsigmoid(x: Any, alpha: float = 1 / 6, beta: float = 0.5, *, out: Any = None, variant: str | None = None) -> Any:
    """out = min(max(alpha·x + beta, 0), 1); see activate."""
    return activate(x, "hardsigmoid", alpha=alpha, beta=beta, out=out, variant=variant)


def hardswish(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x · min(max(x/6 + 1/2, 0), 1); see activate."""
    return activate(x, "hardswish", out=out, variant=variant)
