"""The operators of chapter 04, each a ladder of CUDA C++ kernels with a launcher.

Signatures follow torch.nn.functional. Shapes are PyTorch's; the dtype is float32 or float16 (accumulated in float32);
the layout is NCHW, or NHWC where the operator supports it. INT8_OPERATORS take int8 arrays in NHWC (see int8.py).
Arrays are NumPy's on the simulator, CuPy's on a GPU, or PyTorch tensors; the result is of the same type.

    variants("gemm")              the rungs of a ladder, in order
    gemm(a, b, variant="naive")   runs one of them; default: the fastest for the shape
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..cuda.machine_code import Inspection
from ..cuda.report import Report
from .activate import activate, elu, gelu, hardsigmoid, hardswish, leaky_relu, sigmoid, tanh
from .activate import ladder as _activate
from .add import add
from .add import ladder as _add
from .add_int8 import add_int8
from .add_int8 import ladder as _add_int8
from .binary import binary, divide, maximum, minimum, subtract
from .binary import ladder as _binary
from .clamp import clamp, relu, relu6
from .clamp import ladder as _clamp
from .concat import concat
from .concat import ladder as _concat
from .conv2d import conv2d
from .conv2d import ladder as _conv2d
from .conv2d_int8 import conv2d_int8
from .conv2d_int8 import ladder as _conv2d_int8
from .conv_transpose2d import conv_transpose2d
from .conv_transpose2d import ladder as _conv_transpose2d
from .depthwise import depthwise
from .depthwise import ladder as _depthwise
from .depthwise_backward_input import depthwise_backward_input
from .depthwise_backward_input import ladder as _depthwise_backward_input
from .depthwise_backward_weight import depthwise_backward_weight
from .depthwise_backward_weight import ladder as _depthwise_backward_weight
from .depthwise_int8 import depthwise_int8
from .depthwise_int8 import ladder as _depthwise_int8
from .dequantize import dequantize
from .dequantize import ladder as _dequantize
from .gemm import gemm, linear
from .gemm import ladder as _gemm
from .global_avg_pool import global_avg_pool
from .global_avg_pool import ladder as _global_avg_pool
from .global_avg_pool_int8 import global_avg_pool_int8
from .global_avg_pool_int8 import ladder as _global_avg_pool_int8
from .group_norm import group_norm
from .group_norm import ladder as _group_norm
from .im2col import im2col
from .im2col import ladder as _im2col
from .inspected import inspect_rung
from .inverted_residual import inverted_residual
from .inverted_residual import ladder as _inverted_residual
from .ladder import Ladder, Launch, compile_together, recorded
from .layer_norm import ladder as _layer_norm
from .layer_norm import layer_norm
from .mean import ladder as _mean
from .mean import mean
from .multiply import ladder as _multiply
from .multiply import multiply
from .pad import ladder as _pad
from .pad import pad
from .permute import ladder as _permute
from .permute import permute
from .pointwise import ladder as _pointwise
from .pointwise import pointwise
from .pointwise_int8 import ladder as _pointwise_int8
from .pointwise_int8 import linear_int8, pointwise_int8
from .pool2d import avg_pool2d, max_pool2d, pool2d
from .pool2d import ladder as _pool2d
from .pool2d_int8 import avg_pool2d_int8, max_pool2d_int8, pool2d_int8
from .pool2d_int8 import ladder as _pool2d_int8
from .quantize import ladder as _quantize
from .quantize import quantize
from .resize import ladder as _resize
from .resize import resize
from .softmax import ladder as _softmax
from .softmax import softmax
from .strided_slice import ladder as _strided_slice
from .strided_slice import strided_slice
from .traced import trace_call
from .winograd import ladder as _winograd
from .winograd import winograd
from .winograd_weight import ladder as _winograd_weight
from .winograd_weight import winograd_weight

__all__ = [
    "INT8_OPERATORS",
    "OPERATORS",
    "Launch",
    "activate",
    "add",
    "add_int8",
    "arithmetic",
    "avg_pool2d",
    "avg_pool2d_int8",
    "binary",
    "clamp",
    "compile_together",
    "concat",
    "conv2d",
    "conv2d_int8",
    "conv_transpose2d",
    "depthwise",
    "depthwise_backward_input",
    "depthwise_backward_weight",
    "depthwise_int8",
    "dequantize",
    "diff",
    "divide",
    "elu",
    "gelu",
    "gemm",
    "global_avg_pool",
    "global_avg_pool_int8",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "im2col",
    "inspect",
    "inverted_residual",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_int8",
    "max_pool2d",
    "max_pool2d_int8",
    "maximum",
    "mean",
    "minimum",
    "multiply",
    "pad",
    "permute",
    "pointwise",
    "pointwise_int8",
    "pool2d",
    "pool2d_int8",
    "quantize",
    "recorded",
    "relu",
    "relu6",
    "requires",
    "resize",
    "sigmoid",
    "softmax",
    "source",
    "sources",
    "strided_slice",
    "subtract",
    "tanh",
    "trace",
    "variants",
    "winograd",
    "winograd_weight",
]

_LADDERS = {
    ladder.operator: ladder
    for ladder in (
        _activate,
        _add,
        _add_int8,
        _binary,
        _clamp,
        _concat,
        _conv2d,
        _conv2d_int8,
        _conv_transpose2d,
        _depthwise,
        _depthwise_backward_input,
        _depthwise_backward_weight,
        _depthwise_int8,
        _dequantize,
        _gemm,
        _global_avg_pool,
        _global_avg_pool_int8,
        _group_norm,
        _im2col,
        _inverted_residual,
        _layer_norm,
        _mean,
        _multiply,
        _pad,
        _permute,
        _pointwise,
        _pointwise_int8,
        _pool2d,
        _pool2d_int8,
        _quantize,
        _resize,
        _softmax,
        _strided_slice,
        _winograd,
        _winograd_weight,
    )
}
OPERATORS = tuple(_LADDERS)
INT8_OPERATORS = tuple(name for name in OPERATORS if name.endswith("_int8") or name in ("quantize", "dequantize"))


def _ladder(operator: str) -> Ladder:
    if operator not in _LADDERS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, got {operator!r}")
    return _LADDERS[operator]


def variants(operator: str, dtype: Any = None, layout: str | None = None) -> list[str]:
    """The names of an operator's rungs, in order; with a dtype or layout, only those that support it.

    Raises ValueError for an unknown operator.
    """
    rungs = _ladder(operator).rungs.items()
    return [
        name
        for name, rung in rungs
        if (dtype is None or np.dtype(dtype).name in rung.dtypes) and (layout is None or layout in rung.layouts)
    ]


def requires(operator: str, variant: str) -> int:
    """The compute capability that a rung requires, 80 for sm_80. Raises ValueError for an unknown operator."""
    return _ladder(operator).requires(variant)


def arithmetic(operator: str, variant: str, precision: str) -> str:
    """The arithmetic of a rung's multiplications, a value of measure.roofline.ARITHMETIC.

    precision: "fp32", "fp16" or "int8", the dtype of its arrays. Raises ValueError for an unknown operator or rung.
    """
    return _ladder(operator).arithmetic(variant, precision)


def source(operator: str, variant: str, programmatic: bool = False) -> str:
    """The CUDA C++ source of a rung; programmatic: with the wait for programmatic launches (see ladder.py).

    Raises ValueError for an unknown operator or rung.
    """
    return _ladder(operator).source(variant, programmatic)


def inspect(
    operator: str, variant: str, *args: Any, dtype: Any = "float32", layout: str = "NCHW", arch: str = "sm_90",
    **named: Any,
) -> Inspection:  # fmt: skip
    """The machine code of a rung, with the tiles, block and shared memory that its launcher chooses; see cuda.inspect.

    args, named: the operator's arguments, `kernels.inspect("gemm", "naive", a, b)`; nothing is computed. Without any,
    those of a typical call: a layer of MobileNetV2 at batch 32, a product of 4096×4096 matrices, of that dtype and
    layout. arch: "sm_75", "sm_80", "sm_89" or "sm_90": the launcher chooses as on a T4, an A100, an L4, an H200.

    ValueError for an unknown operator or rung, one that does not take the arguments or the card, and one that is
    composed of other operators; others as of cuda.inspect.
    """
    ladder = _ladder(operator)
    ladder.tile(variant)  # ValueError for an unknown rung
    return inspect_rung(globals()[operator], operator, variant, args, dtype, layout, arch, named)


def trace(
    operator: str, variant: str, *args: Any, blocks: int | Collection[int] | None = None, card: str = "H200",
    **named: Any,
) -> list[Report]:  # fmt: skip
    """The traces of the launches that a rung makes on a card, with the tiles and grid that its launcher chooses there.

    One report per launch, in their order; most rungs have one. args, named: the operator's arguments.
    blocks: as of cuda.trace, the blocks of every launch that are traced, and only they run; None: all, and outputs are
    written as by the call. card: "H200", "T4", "A100" or "L4", which need not be there.

    ValueError for an unknown operator or rung, and one that does not take the arguments; others as of cuda.trace.
    """
    _ladder(operator).tile(variant)  # ValueError for an unknown rung
    return trace_call(lambda: globals()[operator](*args, **named, variant=variant), blocks, card)


def diff(operator: str, before: str, after: str, context: int = 2) -> str:
    """A unified diff of two rungs' code, with `context` lines. Raises ValueError for an unknown operator or rung."""
    return _ladder(operator).diff(before, after, context)


def sources() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """(path, compiler options) of every kernel file of the ladders, one pair per supported dtype."""
    for ladder in _LADDERS.values():
        yield from ladder.sources()
