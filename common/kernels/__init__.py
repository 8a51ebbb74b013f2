"""The operators, each a ladder of CUDA C++ files with a launcher (chapter 04).

Signatures follow torch.nn.functional; shapes are PyTorch's, layout NCHW, dtype float32 or float16 (accumulated in
float32). Arrays are NumPy's on the simulator, CuPy's on a GPU, or PyTorch's; the result is of the same kind.

    variants("gemm")              the rungs of a ladder, in order
    gemm(a, b, variant="naive")   one of them; without it the fastest for the shape
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .add import add
from .add import ladder as _add
from .clamp import clamp, relu, relu6
from .clamp import ladder as _clamp
from .conv2d import conv2d
from .conv2d import ladder as _conv2d
from .depthwise import depthwise
from .depthwise import ladder as _depthwise
from .depthwise_backward_input import depthwise_backward_input
from .depthwise_backward_input import ladder as _depthwise_backward_input
from .depthwise_backward_weight import depthwise_backward_weight
from .depthwise_backward_weight import ladder as _depthwise_backward_weight
from .gemm import gemm, linear
from .gemm import ladder as _gemm
from .global_avg_pool import global_avg_pool
from .global_avg_pool import ladder as _global_avg_pool
from .im2col import im2col
from .im2col import ladder as _im2col
from .ladder import Ladder
from .pointwise import ladder as _pointwise
from .pointwise import pointwise
from .softmax import ladder as _softmax
from .softmax import softmax
from .winograd import ladder as _winograd
from .winograd import winograd
from .winograd_weight import ladder as _winograd_weight
from .winograd_weight import winograd_weight

__all__ = [
    "OPERATORS",
    "add",
    "clamp",
    "conv2d",
    "depthwise",
    "depthwise_backward_input",
    "depthwise_backward_weight",
    "diff",
    "gemm",
    "global_avg_pool",
    "im2col",
    "linear",
    "pointwise",
    "relu",
    "relu6",
    "requires",
    "softmax",
    "source",
    "sources",
    "variants",
    "winograd",
    "winograd_weight",
]

_LADDERS = {
    ladder.operator: ladder
    for ladder in (
        _add,
        _clamp,
        _conv2d,
        _depthwise,
        _depthwise_backward_input,
        _depthwise_backward_weight,
        _gemm,
        _global_avg_pool,
        _im2col,
        _pointwise,
        _softmax,
        _winograd,
        _winograd_weight,
    )
}
OPERATORS = tuple(_LADDERS)


def _ladder(operator: str) -> Ladder:
    if operator not in _LADDERS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, got {operator!r}")
    return _LADDERS[operator]


def variants(operator: str, dtype: Any = None, layout: str | None = None) -> list[str]:
    """The rungs of an operator's ladder, from the first to the last; with a dtype or layout, those that take it.

    ValueError for an unknown operator.
    """
    rungs = _ladder(operator).rungs.items()
    return [
        name
        for name, rung in rungs
        if (dtype is None or np.dtype(dtype).name in rung.dtypes) and (layout is None or layout in rung.layouts)
    ]


def requires(operator: str, variant: str) -> int:
    """The compute capability that a rung needs, 80 for sm_80. ValueError for an unknown operator."""
    return _ladder(operator).requires(variant)


def source(operator: str, variant: str) -> str:
    """The CUDA C++ text of a rung. ValueError for one that is not there."""
    return _ladder(operator).source(variant)


def diff(operator: str, before: str, after: str, context: int = 2) -> str:
    """What changes from one rung's code to another's: a unified diff with so many lines of context."""
    return _ladder(operator).diff(before, after, context)


def sources() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Every kernel file of the project with options to compile it, one pair a dtype."""
    for ladder in _LADDERS.values():
        yield from ladder.sources()
