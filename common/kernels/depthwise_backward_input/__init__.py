"""depthwise_backward_input: the gradient of a depthwise convolution w.r.t. its input."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..depthwise_gradients import (
    DEFAULT,
    DTYPES,
    channel_threads,
    check_accumulate,
    check_sizes,
    geometry_defines,
    layout_of,
)
from ..ladder import Ladder, Rung

NAMES = tuple(dtype.name for dtype in DTYPES)

TILE = {**DEFAULT, "THREADS": 256, "BLOCKS": 4, "TH": 8, "TW": 1, "BOTTOM": -1, "RIGHT": -1}

ladder = Ladder(
    __file__,
    {
        "naive": Rung({"NHWC": 0, "ACCUMULATE": 0}, NAMES, layout.LAYOUTS),
        "phases": Rung(DEFAULT, NAMES, layout.LAYOUTS),
        "tiles": Rung(TILE, NAMES, layout.LAYOUTS),
        "vectors": Rung({**TILE, "NHWC": 1, "TW": 2, "VECTOR": 2, "CHANNELS": 32}, layouts=("NHWC",)),
    },
)


def tile(where: str, h: int, w: int, stride: tuple[int, int]) -> tuple[int, int]:
    """Input pixels per thread, (TH, TW), multiples of the stride: up to 14 rows, dividing the image evenly.

    NHWC: two columns. NCHW, where neighbouring threads share a row: one column per phase, so that accesses coalesce,
    but two in wide images; fewer rows in small images, for enough threads.
    """
    rows, columns = 14, 2
    if where == "NCHW":
        rows = 14 if h >= 28 * stride[0] else 7 if stride[0] == 1 else stride[0]
        rows, columns = (7, 2) if stride == (1, 1) and w >= 56 else (rows, 1)
    rows = checks.blocks(h, checks.blocks(h, rows))
    th, tw = (checks.blocks(size, step) * step for size, step in zip((rows, columns), stride, strict=True))
    return th, tw


def last_unchecked(pixels: int, tile: int, stride: int, outputs: int) -> int:
    """Index, within a tile, of the last output that exists for every tile and needs no bounds check; -1 if none.

    pixels: of the image along one side; outputs: of grad. -1 as well if the tiles do not divide the image.
    """
    return -1 if pixels % tile else max(-1, outputs - 1 - (pixels - tile) // stride)


def vector(grad: Any, weight: Any, out: Any) -> int:
    """Channels per thread: 8 bytes, fewer if C or the addresses are not multiples of that or the kernel is large."""
    c, _, kh, kw = weight.shape
    v = min(8 // grad.dtype.itemsize, vectors.vector_width(grad, weight, out, row=c))
    while v > 1 and v * kh * kw > 64:  # the weights of a thread, in registers
        v //= 2
    return v


def best(where: str, taps: int) -> list[str]:
    """Preferred rungs, fastest first. For many taps and on the simulator, one that is not compiled per convolution."""
    if cuda.backend() == "simulator" or taps > 64:
        return ["naive"]
    return ["vectors", "tiles"] if where == "NHWC" else ["tiles"]


@cuda.operator
def depthwise_backward_input(
    grad: Any,
    weight: Any,
    input_shape: tuple[int, int, int, int],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    accumulate: bool = False,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[n, c, h, w] = Σ weight[c, 0, kh, kw] · grad[n, c, oh, ow], summed over the taps with an output at
    (oh, ow)·stride = (h, w) + pad − (kh, kw)·dilation.

    This is the gradient w.r.t. x of y = depthwise(x, weight), for grad the gradient w.r.t. y:
    torch.nn.grad.conv2d_input with groups=C.

    grad: (N, C, oH, oW), weight: (C, 1, kH, kW), out: (N, C, H, W), which is input_shape; grad and out NCHW, or both
    NHWC; float32, float16 (summed in float32) or float64. stride, dilation: an int or a pair (height, width); padding:
    an int, a pair, or ((top, bottom), (left, right)). accumulate: add the gradient to the contents of out.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("grad", grad, (None,) * 4, allowed=layout.LAYOUTS, dtypes=DTYPES)
    n, c, h, w = check_sizes("input_shape", input_shape, 4)
    checks.array("weight", weight, (c, 1, None, None), like=grad, dtypes=DTYPES)
    s, pads, d, shape = checks.convolution((n, c, h, w), weight.shape, stride, padding, dilation, c)
    checks.array("grad", grad, shape, allowed=layout.LAYOUTS, dtypes=DTYPES)
    accumulate = check_accumulate(accumulate, out)
    where = layout_of(ladder, variant, grad=grad, out=out)
    out = checks.output(out, (n, c, h, w), like=grad, layout=where)
    checks.apart(out, grad=grad, weight=weight)

    kernel = weight.shape[2:]
    chosen = ladder.choose(variant, grad.dtype, where, best(where, kernel[0] * kernel[1]))
    switches = {"NHWC": int(where == "NHWC"), "ACCUMULATE": int(accumulate)}
    if chosen == "naive":
        blocks, block = checks.blocks(out.size, 256), (256, 1)
    else:
        v = vector(grad, weight, out) if chosen == "vectors" else 1
        th, tw = s if chosen == "phases" else tile(where, h, w, s)
        threads, resident = {4: (128, 4), 2: (256, 3), 1: (256, 4)}[v]
        if kernel[0] * kernel[1] > 9 or grad.dtype == np.float64:  # more registers per thread, so fewer threads
            resident = 1
        switches |= {
            **geometry_defines(kernel, s, pads, d),
            "THREADS": threads,
            "BLOCKS": resident,
            "VECTOR": v,
            "CHANNELS": c,
        }
        switches |= {"TH": th, "BOTTOM": last_unchecked(h, th, s[0], shape[2])}
        switches |= {"TW": tw, "RIGHT": last_unchecked(w, tw, s[1], shape[3])}
        tiles = n * checks.blocks(h, th) * checks.blocks(w, tw)
        side, slices = channel_threads(where, c, v, grad.dtype.itemsize)
        block = (side, threads // side)
        blocks = checks.blocks(tiles * slices, threads) if where == "NCHW" else checks.blocks(tiles, block[1]) * slices
    ladder.kernel(chosen, grad.dtype, **switches)(
        (blocks,), block,
        (layout.as_stored(grad), weight, layout.as_stored(out), n, c, h, w, *shape[2:], *kernel, *s,
         pads[0][0], pads[1][0], *d),
    )  # fmt: skip
    return out
