"""activate: elementwise activation functions, from the sigmoid to GELU."""

import math
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

FUNCTIONS = ("sigmoid", "hardsigmoid", "hardswish", "tanh", "erf", "leaky_relu", "elu", "gelu", "gelu_tanh", "sqrt")
ALPHA = {"hardsigmoid": 1 / 6, "leaky_relu": 0.01, "elu": 1.0}  # defaults, as PyTorch's
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
    alpha: float | None = None,
    beta: float = 0.5,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = function(x), elementwise; NaN stays NaN.

    function, one of FUNCTIONS:
        "sigmoid"       1 / (1 + exp(-x))
        "hardsigmoid"   min(max(alpha·x + beta, 0), 1); alpha is 1/6 by default
        "hardswish"     x · min(max(x/6 + 1/2, 0), 1)
        "tanh", "erf"   the hyperbolic tangent, the error function
        "leaky_relu"    x, or alpha·x where x < 0; alpha is 0.01 by default
        "elu"           x, or alpha·(exp(x) - 1) where x < 0; alpha is 1 by default
        "gelu"          x · (1 + erf(x/√2)) / 2
        "gelu_tanh"     x · (1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2, an approximation of "gelu"
        "sqrt"          √x, NaN where x < 0
    alpha, beta: finite numbers; the other functions ignore them.
    x, out: arrays of one shape (any) and one layout, C-contiguous or NHWC, float32 or float16; out may be x.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, None, allowed=layout.LAYOUTS)
    if function not in FUNCTIONS:
        raise ValueError(f"function must be one of {', '.join(map(repr, FUNCTIONS))}, got {function!r}")
    first = _finite("alpha", ALPHA.get(function, 0.0) if alpha is None else alpha)
    second = _finite("beta", beta)
    where = layout.shared_layout(x=x)
    out = checks.output(out, x.shape, like=x, layout=where)
    checks.apart(out, in_place=True, x=x)
    chosen = ladder.choose(variant, x.dtype, where)
    switches: dict[str, Any] = {"FUNCTION": function}
    if chosen == "vectorised":
        switches["VECTOR"] = vectors.vector_width(x, out)
    blocks = checks.blocks(x.size, switches.get("VECTOR", 1) * THREADS)
    arrays = map(layout.as_stored, (x, out))
    ladder.kernel(chosen, x.dtype, **switches)((blocks,), (THREADS,), (*arrays, first, second, x.size))
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


def tanh(x: Any, *, out: Any = None, variant: str | None = None) -> Any:
    """out = tanh(x); see activate."""
    return activate(x, "tanh", out=out, variant=variant)


def leaky_relu(x: Any, negative_slope: float = 0.01, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x, or negative_slope·x where x < 0; see activate."""
    return activate(x, "leaky_relu", alpha=negative_slope, out=out, variant=variant)


def elu(x: Any, alpha: float = 1.0, *, out: Any = None, variant: str | None = None) -> Any:
    """out = x, or alpha·(exp(x) - 1) where x < 0; see activate."""
    return activate(x, "elu", alpha=alpha, out=out, variant=variant)


def gelu(x: Any, approximate: str = "none", *, out: Any = None, variant: str | None = None) -> Any:
    """out = x · (1 + erf(x/√2)) / 2, or with approximate="tanh" the function "gelu_tanh"; see activate."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return activate(x, "gelu" if approximate == "none" else "gelu_tanh", out=out, variant=variant)
