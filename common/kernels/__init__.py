"""The operators, each a ladder of CUDA C++ files with a launcher (chapter 04).

Signatures follow torch.nn.functional; shapes are PyTorch's, layout NCHW, dtype float32 or float16 (accumulated in
float32). Arrays are NumPy's on the simulator, CuPy's on a GPU, or PyTorch's; the result is of the same kind.

    variants("gemm")              the rungs of a ladder, in order
    gemm(a, b, variant="naive")   one of them; without it the fastest for the shape
"""

from collections.abc import Iterator
from pathlib import Path

from .add import add
from .add import ladder as _add
from .clamp import clamp, relu, relu6
from .clamp import ladder as _clamp
from .conv2d import conv2d
from .conv2d import ladder as _conv2d
from .gemm import gemm, linear
from .gemm import ladder as _gemm
from .global_avg_pool import global_avg_pool
from .global_avg_pool import ladder as _global_avg_pool
from .im2col import im2col
from .im2col import ladder as _im2col
from .softmax import ladder as _softmax
from .softmax import softmax

__all__ = [
    "OPERATORS",
    "add",
    "clamp",
    "conv2d",
    "gemm",
    "global_avg_pool",
    "im2col",
    "linear",
    "relu",
    "relu6",
    "softmax",
    "sources",
    "variants",
]

_LADDERS = {ladder.operator: ladder for ladder in (_add, _clamp, _conv2d, _gemm, _global_avg_pool, _im2col, _softmax)}
OPERATORS = tuple(_LADDERS)


def variants(operator: str) -> list[str]:
    """The rungs of an operator's ladder, from the first to the last. ValueError for an unknown operator."""
    if operator not in _LADDERS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, got {operator!r}")
    return _LADDERS[operator].variants


def sources() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Every kernel file of the project with options to compile it, one pair a dtype."""
    for ladder in _LADDERS.values():
        yield from ladder.sources()
