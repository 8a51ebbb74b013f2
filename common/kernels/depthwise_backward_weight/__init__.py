"""depthwise_backward_weight: the gradient of a depthwise convolution w.r.t. its weight."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from .. import vectors
from ..depthwise_gradients import DEFAULT, DTYPES, channel_threads, check_accumulate, geometry_defines, layout_of
from ..ladder import Ladder, Rung, run_or_record

NAMES = tuple(dtype.name for dtype in DTYPES)
THREADS = 256  # per block, for rungs without a choice of their own
PLAIN = {"NHWC": 0, "ACCUMULATE": 0}
TILE = {
    **DEFAULT, "STAGE": 1, "GROUP": 1, "THREADS": THREADS, "BLOCKS": 2, "LANES": 1, "TH": 7, "TW": 1, "BOTTOM": -1,
    "RIGHT": -1,
}  # fmt: skip

ladder = Ladder(
    __file__,
    {
        "naive": Rung(PLAIN, NAMES, layout.LAYOUTS),
        "atomics": Rung(PLAIN, ("float32", "float64"), layout.LAYOUTS),
        "block_reduction": Rung({**PLAIN, "THREADS": THREADS}, NAMES, layout.LAYOUTS),
        "tiles": Rung(TILE, NAMES, layout.LAYOUTS),
        "vectors": Rung({**TILE, "NHWC": 1, "LANES": 8, "TW": 2, "VECTOR": 4, "CHANNELS": 32}, layouts=("NHWC",)),
    },
)


@dataclass(frozen=True)
class Tiling:
    """How rungs 4 and 5 divide the work.

    th, tw    outputs per thread
    vector    channels per access
    lanes     threads of a block along the channels
    slices    groups of lanes that cover all channels
    parts     of the reduction; with several, a second launch adds their sums
    threads   per block
    blocks    resident per multiprocessor, a bound on the registers
    """

    th: int
    tw: int
    vector: int
    lanes: int
    slices: int
    parts: int
    threads: int
    blocks: int


def tiling(
    is_vectors: bool, where: str, x: tuple[int, ...], grad: tuple[int, ...], taps: int, dtype: Any, widest: int
) -> Tiling:
    """The tiling that was fastest on an H200: up to 7 rows, dividing the image evenly, and two columns.

    Wide images with stride 2 or in float32 get 4 rows, in float32 also half the vector and twice the blocks. Narrow
    images and NCHW, where neighbouring threads share a row, get one column.

    x, grad   shapes
    widest    the widest vector access in elements that C and the arrays' addresses allow
    """
    n, c, _, w = x
    oh, ow = grad[2:]
    itemsize, single = np.dtype(dtype).itemsize, np.dtype(dtype) == np.float32
    wide = w >= 56 and where == "NHWC" and (single or ow < w)
    vector = min(2 if wide and single else 4, widest) if is_vectors else 1
    while vector * taps > 50 and vector > 1:  # a thread's sums must fit in registers
        vector //= 2
    threads = THREADS if taps <= 64 else 64
    summed = max(4, itemsize)  # bytes of a sum
    most = min(
        32, max(1, cuda.SHARED_DEFAULT // (threads // 32 * taps * vector * summed))
    )  # within one warp, for its shuffles
    lanes, slices = channel_threads(where, c, vector, itemsize, most)
    th = checks.blocks(oh, checks.blocks(oh, 4 if wide else 7 if where == "NHWC" or ow < w else 14))
    tw = 2 if where == "NHWC" and ow > 7 else 1
    blocks = 1 if vector * taps > 36 or summed > 4 else 4 if vector == 2 else 2  # of a multiprocessor, for registers
    tiles = n * checks.blocks(oh, th) * checks.blocks(ow, tw)
    waves = 1 if where == "NHWC" else 4
    wanted = waves * blocks * cuda.multiprocessors() // slices
    parts = max(1, min(wanted, checks.blocks(tiles, threads // lanes)))
    return Tiling(th, tw, vector, lanes, slices, parts, threads, blocks)


def last_unchecked(inputs: int, pad: int, stride: int, outputs: int, tile: int) -> int:
    """Index, within a tile's patch of x, of the last row or column that exists for every tile; -1 if none.

    inputs, outputs: sizes of x and grad along one side. -1 as well if the tiles do not divide grad.
    """
    return -1 if outputs % tile else max(-1, inputs - 1 + pad - (outputs - tile) * stride)


def best(where: str, taps: int) -> list[str]:
    """Preferred rungs, fastest first. For many taps and on the simulator, one that is not compiled per convolution."""
    if cuda.backend() == "simulator":
        return ["naive"]
    if taps > 64:
        return ["block_reduction"]
    return ["vectors", "tiles"] if where == "NHWC" else ["tiles"]


@cuda.operator
def depthwise_backward_weight(
    grad: Any,
    x: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    accumulate: bool = False,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out[c, 0, kh, kw] = Σ grad[n, c, oh, ow] · x[n, c, ih, iw], summed over images and outputs,
    with (ih, iw) = (oh, ow)·stride − pad + (kh, kw)·dilation.

    This is the gradient w.r.t. the weight of y = depthwise(x, weight), for grad the gradient w.r.t. y:
    torch.nn.grad.conv2d_weight with groups=C.

    grad: (N, C, oH, oW), x: (N, C, H, W), both NCHW or both NHWC; out: (C, 1, kH, kW); float32, float16
    (summed in float32) or float64. kernel_size, stride, dilation: an int or a pair (height, width); padding: an int, a
    pair, or ((top, bottom), (left, right)). accumulate: add the gradient to the contents of out.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("grad", grad, (None,) * 4, allowed=layout.LAYOUTS, dtypes=DTYPES)
    n, c, h, w = checks.array("x", x, (None,) * 4, like=grad, allowed=layout.LAYOUTS, dtypes=DTYPES).shape
    kernel = checks.pair("kernel_size", kernel_size, 1)
    s, pads, d, shape = checks.convolution(x.shape, (c, 1, *kernel), stride, padding, dilation, c)
    checks.array("grad", grad, shape, allowed=layout.LAYOUTS, dtypes=DTYPES)
    accumulate = check_accumulate(accumulate, out)
    where = layout_of(ladder, variant, grad=grad, x=x)
    out = checks.output(out, (c, 1, *kernel), like=grad)
    checks.apart(out, grad=grad, x=x)

    taps = kernel[0] * kernel[1]
    chosen = ladder.choose(variant, grad.dtype, where, best(where, taps))
    switches = {"NHWC": int(where == "NHWC"), "ACCUMULATE": int(accumulate)}
    arrays = layout.as_stored(grad), layout.as_stored(x)
    sizes = (n, c, h, w, *shape[2:], *kernel, *s, pads[0][0], pads[1][0], *d)
    if chosen not in ("tiles", "vectors"):
        if chosen == "atomics" and not accumulate:
            run_or_record("cleared", functools.partial(out.fill, 0))
        threads = {"naive": out.size, "atomics": grad.size, "block_reduction": out.size * THREADS}[chosen]
        ladder.kernel(chosen, grad.dtype, **switches)(
            (checks.blocks(threads, THREADS),), (THREADS,), (*arrays, None, out, *sizes, 1)
        )
        return out

    t = tiling(chosen == "vectors", where, x.shape, shape, taps, x.dtype, vectors.vector_width(grad, x, row=c))
    switches |= {**geometry_defines(kernel, s, pads, d), "CHANNELS": c, "THREADS": t.threads, "BLOCKS": t.blocks}
    switches |= {"VECTOR": t.vector, "LANES": t.lanes, "TH": t.th, "TW": t.tw}
    switches["BOTTOM"] = last_unchecked(h, pads[0][0], s[0], shape[2], t.th)
    switches["RIGHT"] = last_unchecked(w, pads[1][0], s[1], shape[3], t.tw)
    sums = np.float64 if out.dtype == np.float64 else np.float32
    partials = cuda.empty(out.size * t.parts, sums) if t.parts > 1 else None
    args = (*arrays, partials, out, *sizes, t.parts)
    ladder.kernel(chosen, grad.dtype, **switches)((t.slices * t.parts,), (t.threads,), args)
    if t.parts > 1:
        switches |= {"STAGE": 2, "GROUP": min(32, 1 << (t.parts - 1).bit_length())}
        ladder.kernel(chosen, grad.dtype, **switches)(
            (checks.blocks(out.size * switches["GROUP"], t.threads),), (t.threads,), args
        )
    return out
