"""depthwise_backward_input: the gradient of a depthwise convolution to its input."""

from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..depthwise_gradients import DEFAULT, DTYPES, channels, check_accumulate, layout_of, numbers, sizes
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
    """The pixels of a thread, (TH, TW), multiples of the stride: up to 14 rows, of parts of the image that are even.

    Two columns in NHWC. In NCHW, where neighbours share a row, as few as there are phases, so that they load and store
    side by side, but two in wide images; and fewer rows in small ones, so that there are enough threads.
    """
    rows, columns = 14, 2
    if where == "NCHW":
        rows = 14 if h >= 28 * stride[0] else 7 if stride[0] == 1 else stride[0]
        rows, columns = (7, 2) if stride == (1, 1) and w >= 56 else (rows, 1)
    rows = checks.blocks(h, checks.blocks(h, rows))
    th, tw = (checks.blocks(size, step) * step for size, step in zip((rows, columns), stride, strict=True))
    return th, tw


def surely(pixels: int, tile: int, stride: int, outputs: int) -> int:
    """The last output that is there for every tile, counted from the tile's first; -1 if a tile overhangs the image."""
    return -1 if pixels % tile else max(-1, outputs - 1 - (pixels - tile) // stride)


def vector(grad: Any, weight: Any, out: Any) -> int:
    """Channels of a thread: 8 bytes' worth, fewer where they divide neither C nor the addresses, or taps are many."""
    c, _, kh, kw = weight.shape
    v = min(8 // grad.dtype.itemsize, vectors.vector_width(grad, weight, out, row=c))
    while v > 1 and v * kh * kw > 64:  # the weights of a thread, in registers
        v //= 2
    return v


def best(where: str, taps: int) -> list[str]:
    """The fastest rungs first: those for many taps, and on the simulator, are not compiled for each convolution."""
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
    """out[n, c, h, w] = Σ weight[c, 0, kh, kw] · grad[n, c, oh, ow], over the taps that meet an output.

    That is where (oh, ow)·stride = (h, w) + pad − (kh, kw)·dilation. It is the gradient to x of
    y = depthwise(x, weight), if grad is the one to y: torch.nn.grad.conv2d_input with groups=C.

    grad: (N, C, oH, oW), weight: (C, 1, kH, kW), out: (N, C, H, W), which is input_shape; grad and out NCHW, or both
    NHWC; float32, float16 (summed in float32) or float64. stride, dilation: an int or a pair (height, width); padding:
    an int, a pair, or ((top, bottom), (left, right)). accumulate: the gradient is added to what is in out.
    ValueError and TypeError name what does not fit.
    """
    checks.array("grad", grad, (None,) * 4, allowed=layout.LAYOUTS, dtypes=DTYPES)
    n, c, h, w = sizes("input_shape", input_shape, 4)
    checks.array("weight", weight, (c, 1, None, None), like=grad, dtypes=DTYPES)
    s, pads, d, shape = checks.convolution((n, c, h, w), weight.shape, stride, padding, dilation, c)
    checks.array("grad", grad, shape, allowed=layout.LAYOUTS, dtypes=DTYPES)
    accumulate = check_accumulate(accumulate, out)
    where = layout_of(ladder, variant, grad=grad, out=out)
    out = checks.output(out, (n, c, h, w), like=grad, layout=where)

    kernel = weight.shape[2:]
    chosen = ladder.choose(variant, grad.dtype, where, best(where, kernel[0] * kernel[1]))
    switches = {"NHWC": int(where == "NHWC"), "ACCUMULATE": int(accumulate)}
    if chosen == "naive":
        blocks, block = checks.blocks(out.size, 256), (256, 1)
    else:
        v = vector(grad, weight, out) if chosen == "vectors" else 1
        th, tw = s if chosen == "phases" else tile(where, h, w, s)
        threads, resident = {4: (128, 4), 2: (256, 3), 1: (256, 4)}[v]
        if kernel[0] * kernel[1] > 9 or grad.dtype == np.float64:  # more registers a thread, so fewer threads
            resident = 1
        switches |= {**numbers(kernel, s, pads, d), "THREADS": threads, "BLOCKS": resident, "VECTOR": v, "CHANNELS": c}
        switches |= {"TH": th, "BOTTOM": surely(h, th, s[0], shape[2])}
        switches |= {"TW": tw, "RIGHT": surely(w, tw, s[1], shape[3])}
        tiles = n * checks.blocks(h, th) * checks.blocks(w, tw)
        side, slices = channels(where, c, v, grad.dtype.itemsize)
        block = (side, threads // side)
        blocks = checks.blocks(tiles * slices, threads) if where == "NCHW" else checks.blocks(tiles, block[1]) * slices
    ladder.kernel(chosen, grad.dtype, **switches)(
        (blocks,), block,
        (layout.as_stored(grad), weight, layout.as_stored(out), n, c, h, w, *shape[2:], *kernel, *s,
         pads[0][0], pads[1][0], *d),
    )  # fmt: skip
    return out
