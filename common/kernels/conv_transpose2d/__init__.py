"""conv_transpose2d: transposed 2-D convolution with fused bias, residual and activation."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ...cuda import layout as layouts
from ..ladder import Ladder, Rung

THREADS = 128  # per block

ladder = Ladder(__file__, {"naive": Rung({"NHWC": 0}, layouts=layouts.LAYOUTS)})


@cuda.operator
def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    residual: Any = None,
    activation: Any = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = activation(conv_transpose2d(x, weight) + bias + residual): torch.nn.functional.conv_transpose2d, and more.

    x: (N, I, H, W), weight: (I, O/groups, kH, kW), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW)
    with oH = (H - 1)·stride - top - bottom + dilation·(kH - 1) + 1 + output_padding, oW alike; all NCHW or all NHWC in
    memory, float32 or float16, accumulated in float32. stride, dilation, output_padding: an int or a pair (height,
    width), output_padding below stride or dilation; padding: an int, a pair, or ((top, bottom), (left, right)), what is
    cut off. activation: None, "relu", "relu6" or bounds (low, high).
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS).shape
    _, outs, kh, kw = checks.array("weight", weight, (c, None, None, None), like=x, allowed=layouts.LAYOUTS).shape
    if not isinstance(groups, int) or groups < 1 or c % groups:
        raise ValueError(f"groups must be an integer that divides the {c} channels of x, got {groups!r}")
    steps, spread = checks.pair("stride", stride, 1), checks.pair("dilation", dilation, 1)
    pads, more = checks.padding(padding), checks.pair("output_padding", output_padding, 0)
    extents = zip((h, w), (kh, kw), steps, pads, more, spread, strict=True)
    shape = (n, outs * groups, *(_extent(*one) for one in extents))
    if bias is not None:
        checks.array("bias", bias, shape[1:2], like=x)
    if residual is not None:
        checks.array("residual", residual, shape, like=x, allowed=layouts.LAYOUTS)
    if out is not None:
        checks.array("out", out, shape, like=x, allowed=layouts.LAYOUTS)
    where = layouts.shared_layout(x=x, weight=weight, residual=residual, out=out)
    low, high = checks.bounds(activation)
    out = checks.output(out, shape, like=x, layout=where)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual)
    kernel = ladder.kernel(ladder.choose(variant, x.dtype, where), x.dtype, NHWC=int(where == "NHWC"))
    arrays = (array if array is None else layouts.as_stored(array) for array in (x, weight, bias, residual, out))
    (top, _), (left, _) = pads
    sizes = (c, h, w, *shape[1:], kh, kw, *steps, top, left, *spread, groups, low, high, out.size)
    kernel((checks.blocks(out.size, THREADS),), (THREADS,), (*arrays, *sizes))
    return out


def _extent(size: int, kernel: int, stride: int, pads: tuple[int, int], more: int, dilation: int) -> int:
    """The size of the output along one side."""
    if more >= max(stride, dilation):
        raise ValueError(f"output_padding must be below stride {stride} or dilation {dilation}, got {more}")
    extent = (size - 1) * stride - sum(pads) + dilation * (kernel - 1) + 1 + more
    if extent < 1:
        raise ValueError(f"padding must leave at least one pixel of {extent + sum(pads)}, got {pads}")
    return extent
