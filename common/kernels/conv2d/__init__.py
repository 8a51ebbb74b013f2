"""conv2d: any convolution, with bias, residual and activation in the same kernel."""

from typing import Any

from ... import cuda
from ...cuda import checks
from ..ladder import Ladder, Rung

ladder = Ladder(__file__, {"naive": Rung()})


@cuda.operator
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    residual: Any = None,
    activation: Any = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = activation(conv2d(x, weight) + bias + residual): torch.nn.functional.conv2d and what follows it.

    x: (N, C, H, W), weight: (O, C/groups, kH, kW), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW);
    layout NCHW, float32 or float16, accumulated in float32. stride, dilation: an int or a pair (height, width);
    padding: an int, a pair, or ((top, bottom), (left, right)). activation: None, "relu", "relu6" or bounds (low, high).
    ValueError and TypeError name what does not fit.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4).shape
    checks.array("weight", weight, None, like=x)
    (sh, sw), (rows, columns), (dh, dw), (_, o, oh, ow) = checks.convolution(
        x.shape, weight.shape, stride, padding, dilation, groups
    )
    kh, kw = weight.shape[2:]
    if bias is not None:
        checks.array("bias", bias, (o,), like=x)
    if residual is not None:
        checks.array("residual", residual, (n, o, oh, ow), like=x)
    low, high = checks.bounds(activation)
    out = checks.output(out, (n, o, oh, ow), like=x)

    threads = min(256, checks.blocks(oh * ow, 32) * 32)
    kernel = ladder.kernel(ladder.choose(variant, x.dtype), x.dtype)
    kernel(
        (checks.blocks(oh * ow, threads), o, n), (threads,),
        (x, weight, bias, residual, out, c, h, w, o, oh, ow, kh, kw, sh, sw, rows[0], columns[0], dh, dw, groups,
         low, high),
    )  # fmt: skip
    return out
