"""pool2d_int8: max and average pooling of int8 numbers."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import int8_arguments as arguments
from ..int8 import DEPTH
from ..ladder import Ladder, Rung
from ..pool2d import KINDS

ladder = Ladder(__file__, {"naive": Rung({"MAX": 1}, arguments.DTYPE, ("NHWC",))})

THREADS = 256  # per block


@cuda.operator
def pool2d_int8(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    kind: str = "max",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    multiplier: float = 1.0,
    input_zero_point: int = 0,
    zero_point: int = 0,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c, oh, ow] = the largest x of a window, or its mean, requantized.

    x: (N, C, H, W), NHWC; out: (N, C, oH, oW), NHWC: int8. kernel_size, stride, padding, dilation, ceil_mode,
    count_include_pad: as of pool2d. kind: "max", in the scale of x; or "average": clamp(round(acc · (multiplier /
    count)) + zero_point), acc = Σ (x − input_zero_point), multiplier = scale_x / scale_out. Source: int8.py.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout, option or
    variant is invalid.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    if kind not in KINDS:
        raise ValueError(f"kind must be 'max' or 'average', got {kind!r}")
    kernel = checks.pair("kernel_size", kernel_size, 1)
    steps = kernel if stride is None else checks.pair("stride", stride, 1)
    apart = checks.pair("dilation", dilation, 1)
    pads = checks.padding(padding)
    if any(max(side) >= k for side, k in zip(pads, kernel, strict=True)):
        raise ValueError(f"padding must be below kernel_size {kernel}, got {padding!r}")
    if kernel[0] * kernel[1] > DEPTH:
        raise ValueError(f"kernel_size must have at most {DEPTH} taps, got {kernel[0] * kernel[1]}")
    factor = arguments.scale("multiplier", multiplier)
    zeros = [
        arguments.int8_number(*one) for one in (("input_zero_point", input_zero_point), ("zero_point", zero_point))
    ]
    oh, ow = (
        checks.pool_windows(*side, bool(ceil_mode)) for side in zip((h, w), kernel, steps, pads, apart, strict=True)
    )
    out = arguments.output(out, (n, c, oh, ow), x)
    checks.apart(out, x=x)
    chosen = ladder.choose(variant, x.dtype, "NHWC")
    sizes = (c, h, w, oh, ow, *kernel, *steps, *pads[0], *pads[1], *apart, int(bool(count_include_pad)))
    run = ladder.kernel(chosen, x.dtype, MAX=int(kind == "max"))
    stored = map(layout.as_stored, (x, out))
    run((checks.blocks(out.size, THREADS),), (THREADS,), (*stored, *sizes, factor, *zeros, out.size))
    return out


def max_pool2d_int8(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = the largest x of each window, in the scale of x; see pool2d_int8."""
    return pool2d_int8(x, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, out=out, variant=variant)


def avg_pool2d_int8(
    x: Any, kernel_size: Any, multiplier: float, stride: Any = None, padding: Any = 0, **more: Any
) -> Any:  # fmt: skip
    """out = the mean of each window, requantized; more: further arguments of pool2d_int8, which see."""
    return pool2d_int8(x, kernel_size, stride, padding, kind="average", multiplier=multiplier, **more)
