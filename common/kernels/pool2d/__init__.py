"""pool2d: max and average pooling."""

from typing import Any

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..ladder import Ladder, Rung

KINDS = ("max", "average")
THREADS = 256  # per block

ladder = Ladder(
    __file__,
    {
        "naive": Rung({"MAX": 1, "NHWC": 0}, layouts=layout.LAYOUTS),
        "channels_last": Rung({"MAX": 1, "VECTOR": 4}, layouts=("NHWC",)),
    },
)


@cuda.operator
def pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    kind: str = "max",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c, oh, ow] = the maximum of a window of x, or its mean.

    x: (N, C, H, W), out: (N, C, oH, oW), both NCHW or both NHWC, float32 or float16. kernel_size, stride (kernel_size
    if None), dilation: an int or a pair (height, width); padding: an int, a pair, or ((top, bottom), (left, right)),
    below kernel_size. kind: "max" (ignores padding, propagates NaN) or "average", divided by the number of the window's
    elements inside the image or, with count_include_pad, inside the image and its padding.
    ceil_mode: add a partial window at the end if it starts in the image or the padding before it.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS).shape
    if kind not in KINDS:
        raise ValueError(f"kind must be 'max' or 'average', got {kind!r}")
    kernel = checks.pair("kernel_size", kernel_size, 1)
    steps = kernel if stride is None else checks.pair("stride", stride, 1)
    apart = checks.pair("dilation", dilation, 1)
    pads = checks.padding(padding)
    if any(max(side) >= k for side, k in zip(pads, kernel, strict=True)):
        raise ValueError(f"padding must be below kernel_size {kernel}, got {padding!r}")
    oh, ow = (
        checks.pool_windows(*side, bool(ceil_mode)) for side in zip((h, w), kernel, steps, pads, apart, strict=True)
    )
    if out is not None:
        checks.array("out", out, (n, c, oh, ow), like=x, allowed=layout.LAYOUTS)
    where = layout.shared_layout(x=x, out=out)
    if variant == "channels_last" and all(layout.has(a, "NHWC") for a in (x, out) if a is not None):
        where = "NHWC"  # one channel or one pixel fits either layout
    out = checks.output(out, (n, c, oh, ow), like=x, layout=where)
    checks.apart(out, x=x)
    chosen = ladder.choose(variant, x.dtype, where)

    vector = vectors.vector_width(x, out, row=c) if chosen == "channels_last" else 1
    layouts = {"VECTOR": vector} if chosen == "channels_last" else {"NHWC": int(where == "NHWC")}
    run = ladder.kernel(chosen, x.dtype, MAX=int(kind == "max"), **layouts)
    sizes = (c, h, w, oh, ow, *kernel, *steps, *pads[0], *pads[1], *apart, int(bool(count_include_pad)), out.size)
    run((checks.blocks(out.size // vector, THREADS),), (THREADS,), (*map(layout.as_stored, (x, out)), *sizes))
    return out


def max_pool2d(
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
    """out = the maximum of each window: torch.nn.functional.max_pool2d; see pool2d."""
    return pool2d(x, kernel_size, stride, padding, dilation, kind="max", ceil_mode=ceil_mode, out=out, variant=variant)


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = the mean of each window, padding included by default: torch.nn.functional.avg_pool2d; see pool2d."""
    return pool2d(
        x,
        kernel_size,
        stride,
        padding,
        kind="average",
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        out=out,
        variant=variant,
    )
