"""conv2d: general 2-D convolution with fused bias, residual and activation."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks
from ...cuda import layout as layouts
from .. import vectors
from ..depthwise import depthwise
from ..gemm import gemm
from ..halves import Halves, checked
from ..im2col import im2col
from ..ladder import Ladder, Rung
from ..pointwise import pointwise

# A block computes BO output channels of BP pixels, BK products of each at a time; a thread TO×TP of them, a warp WO×WP.
# In the rung "direct" LO threads share TP pixels, so BO is LO·TO.
ladder = Ladder(
    __file__,
    {
        "naive": Rung(layouts=layouts.LAYOUTS),
        "direct": Rung({"TO": 16, "TP": 4, "LO": 1, "BK": 32, "THREADS": 128}, layouts=layouts.LAYOUTS),
        "im2col_gemm": Rung(composed=True),
        "implicit_gemm": Rung({"BO": 64, "BP": 128, "BK": 16, "TO": 8, "TP": 8}, layouts=layouts.LAYOUTS),
        "tensor_cores": Rung({"BO": 64, "BP": 128, "BK": 32, "WO": 32, "WP": 64, "STAGES": 3}, layouts=layouts.LAYOUTS),
        "halo": Rung(
            {"BO": 64, "BP": 128, "WO": 32, "WP": 64, "CHANNELS": 32, "SLICE": 4, "STAGES": 3, "COLUMNS": 64},
            layouts=layouts.LAYOUTS,
        ),
    },
)

MOST_PARTS = 16


@dataclass(frozen=True)
class Convolution:
    """The checked and normalised arguments of conv2d: pairs for stride and dilation, four sides of padding, bounds."""

    x: Any
    weight: Any
    bias: Any
    residual: Any
    out: Any
    layout: str
    stride: tuple[int, int]
    padding: checks.Pads
    dilation: tuple[int, int]
    groups: int
    bounds: tuple[np.float32, np.float32]

    def arguments(self, partial: Any = None) -> tuple[Any, ...]:
        """The kernel arguments, which are the same for every rung. partial: scratch for partial sums, or None."""
        n, c, h, w = self.x.shape
        o, _, kh, kw = self.weight.shape
        (top, _), (left, _) = self.padding
        arrays = (self.x, self.weight, self.bias, self.residual, self.out)
        return (
            *(array if array is None else layouts.as_stored(array) for array in arrays), partial,
            n, c, h, w, o, *self.out.shape[2:], kh, kw, *self.stride, top, left, *self.dilation, self.groups,
            *self.bounds,
        )  # fmt: skip

    @property
    def nhwc(self) -> bool:
        """Whether the layout is NHWC."""
        return self.layout == "NHWC"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.x.dtype.itemsize

    @property
    def piece(self) -> int:
        """Elements in 16 bytes, the widest access."""
        return vectors.WIDEST // self.itemsize

    @property
    def channels(self) -> int:
        """Input channels per group."""
        return self.weight.shape[1]

    @property
    def outs(self) -> int:
        """Output channels per group."""
        return self.weight.shape[0] // self.groups

    @property
    def taps(self) -> int:
        """Positions of the kernel window, kH · kW."""
        return math.prod(self.weight.shape[2:])

    @property
    def pixels(self) -> int:
        """Output pixels of all images, N · oH · oW."""
        return self.out.size // len(self.weight)

    def vector(self, *others: Any) -> int:
        """Width of a vector access to neighbouring outputs, in elements: pixels in NCHW, a group's channels in NHWC.

        others: further arrays that must be aligned to it.
        """
        arrays = (self.out, self.residual, self.bias if self.nhwc else None, *others)
        row = self.outs if self.nhwc else math.prod(self.out.shape[2:])
        return vectors.vector_width(*(array for array in arrays if array is not None), row=row)


@dataclass(frozen=True)
class Launch:
    """How to launch a rung for a convolution.

    switches   -D options that differ from the rung's own
    blocks     per part of the reduction
    threads    per block
    shared     bytes of dynamic shared memory per block
    parts      of the reduction (split-K); partial sums of several parts are added by a second launch
    """

    variant: str
    switches: dict[str, Any]
    blocks: int
    threads: int
    shared: int = 0
    parts: int = 1

    def kernel(self, dtype: Any, **switches: Any) -> Any:
        """The compiled kernel."""
        kernel = ladder.kernel(self.variant, dtype, **self.switches | switches)
        cuda.allow_shared(kernel, self.shared)
        return kernel

    def run(self, call: Convolution) -> None:
        """Launch the kernel on a convolution's arrays."""
        dtype, threads = call.x.dtype, (self.threads,)
        if self.parts == 1:
            self.kernel(dtype)((self.blocks,), threads, call.arguments(), shared_mem=self.shared)
            return
        arguments = call.arguments(cuda.workspace((self.parts, call.out.size)))
        self.kernel(dtype)((self.blocks * self.parts,), threads, arguments, shared_mem=self.shared)
        blocks = checks.blocks(call.out.size, 256 * self.switches["VECTOR_OUT"])
        self.kernel(dtype, SUM=self.parts)((blocks,), (256,), arguments)


def naive(call: Convolution) -> Launch:
    """The launch of rung "naive": one thread per output."""
    return Launch("naive", {"NHWC": int(call.nhwc)}, checks.blocks(call.out.size, 256), 256)


def direct(call: Convolution, **tiles: int) -> Launch:
    """The launch of rung "direct"; tiles: -D options that override the chosen ones."""
    tile = ladder.tile("direct")
    if call.pixels < 512 * cuda.multiprocessors():  # smaller tiles, more threads
        tile |= {"TO": 8, "TP": 2, "LO": 4 if call.nhwc else 1}
    elif call.nhwc:
        tile |= {"TP": 8, "LO": 2}
    tile |= tiles
    blocks = call.groups * checks.blocks(call.outs, tile["LO"] * tile["TO"])
    blocks *= checks.blocks(call.pixels, tile["THREADS"] // tile["LO"] * tile["TP"])
    wide = call.nhwc and call.vector() >= 4
    return Launch("direct", tile | {"NHWC": int(call.nhwc), "VECTOR": 4 if wide else 1}, blocks, tile["THREADS"])


def implicit_gemm(call: Convolution, **tiles: int) -> Launch:
    """The launch of rung "implicit_gemm"; tiles: -D options that override the chosen ones."""
    tile = ladder.tile("implicit_gemm") | ({"BO": 32, "TP": 4} if call.outs <= 32 else {}) | tiles
    wide = call.vector(*([call.x] if call.nhwc else [])) >= 4 and not (call.nhwc and call.channels % 4)
    switches = tile | {"NHWC": int(call.nhwc), "VECTOR": 4 if wide else 1}
    threads = tile["BO"] // tile["TO"] * (tile["BP"] // tile["TP"])
    return Launch("implicit_gemm", switches, _blocks(call, tile, call.pixels), threads)


def tensor_cores(call: Convolution, parts: int | None = None, **tiles: int) -> Launch:
    """The launch of rung "tensor_cores"; parts: of the reduction; tiles: -D options that override the chosen ones."""
    tile = ladder.tile("tensor_cores") | _narrower(call)
    if _blocks(call, tile, call.pixels) < cuda.multiprocessors():
        tile |= {"BP": 64, "WP": 32, "BK": 64 if call.itemsize == 2 else 32}
        tile |= {"WO": 16} if call.outs <= 32 else {"STAGES": 3}
    tile |= tiles
    row = call.channels if call.nhwc else call.channels * call.taps
    whole = vectors.vector_width(call.weight, *([call.x] if call.nhwc else []), row=row) == call.piece
    switches = {"NHWC": int(call.nhwc), "VECTOR_IN": call.piece if whole else 1, "VECTOR_OUT": call.vector()}
    blocks = _blocks(call, tile, call.pixels)
    slices = checks.blocks(call.channels * call.taps, tile["BK"])
    shared = max(tile["STAGES"] * (tile["BO"] + tile["BP"]) * (tile["BK"] * call.itemsize + 16), _sums(call, tile))
    return Launch("tensor_cores", tile | switches, blocks, _warps(tile) * 32, shared, parts or cuts(blocks, slices))


def halo(call: Convolution, parts: int | None = None, **tiles: int) -> Launch:
    """The launch of rung "halo", or of "tensor_cores" if even one column's window exceeds shared memory.

    parts: of the reduction; tiles: -D options that override the chosen ones.
    """
    n, _, oh, ow = call.out.shape
    tile = ladder.tile("halo") | _narrower(call)
    tile["CHANNELS"] = call.piece if call.channels <= call.piece else 4 * call.piece
    if _blocks(call, tile, call.pixels) < cuda.multiprocessors():
        tile |= {"BP": 64, "WP": 32, "STAGES": 4}
        if call.outs <= 32:
            tile["WO"] = 16
    if call.channels <= call.piece and call.taps <= 10:  # all of k is one slice
        tile |= {"SLICE": 10, "STAGES": 2}
    tile |= tiles
    whole = call.nhwc and vectors.vector_width(call.weight, call.x, row=call.channels) == call.piece
    pieces = tile["CHANNELS"] // call.piece
    chunks = checks.blocks(call.channels, tile["CHANNELS"])
    weights = tile["STAGES"] * tile["BO"] * (tile["SLICE"] + 1) * 16 + (call.taps * pieces + 4) // 4 * 16
    while True:
        strips = checks.blocks(ow, tile["COLUMNS"])
        columns = checks.blocks(ow, strips)
        blocks = _blocks(call, tile, n * strips * oh * columns)
        cut = parts or cuts(blocks, chunks)
        pixels = _pixels_under(call, tile["BP"], strips, columns) * (pieces | 1) * 16
        shared = 8 * tile["BP"] + max(weights + pixels * min(2, checks.blocks(chunks, cut)), _sums(call, tile))
        if shared <= cuda.SHARED_SM80:
            break
        if columns == 1:  # even the window of one column does not fit
            return tensor_cores(call)
        tile["COLUMNS"] = checks.blocks(columns, 2)
    vector = call.vector() if call.nhwc or strips == 1 else math.gcd(call.vector(), columns, ow)
    switches = {"NHWC": int(call.nhwc), "VECTOR_IN": call.piece if whole else 1, "VECTOR_OUT": vector}
    return Launch("halo", tile | switches, blocks, _warps(tile) * 32, shared, cut)


def _narrower(call: Convolution) -> dict[str, int]:
    """Tile sizes for at most 32 output channels, and fewer stages for float32, whose stages are twice as large."""
    if call.outs <= 32:
        return {"BO": 32, "WP": 32, "STAGES": 2}
    return {"STAGES": 2} if call.itemsize == 4 else {}


def _pixels_under(call: Convolution, pixels: int, strips: int, columns: int) -> int:
    """Upper bound on the pixels of x under the windows of `pixels` neighbouring outputs, taken strip by strip."""
    n, _, oh, _ = call.out.shape
    high, wide = ((k - 1) * d + 1 for k, d in zip(call.weight.shape[2:], call.dilation, strict=True))
    rows = min((pixels - 2) // columns + 2, n * strips * oh)  # of y
    strips_begun = min(rows - 1, checks.blocks(rows - 1, oh))  # other than the first
    step = call.stride[0]
    under = high + (rows - 1 - strips_begun) * step + strips_begun * max(step, high)
    return under * ((columns - 1) * call.stride[1] + wide)


def _blocks(call: Convolution, tile: dict[str, int], pixels: int) -> int:
    return call.groups * checks.blocks(call.outs, tile["BO"]) * checks.blocks(pixels, tile["BP"])


def _warps(tile: dict[str, int]) -> int:
    return tile["BO"] // tile["WO"] * (tile["BP"] // tile["WP"])


def _sums(call: Convolution, tile: dict[str, int]) -> int:
    """Bytes of a block's outputs (float32) in shared memory, each row padded by 8 elements."""
    rows, columns = (tile["BP"], tile["BO"]) if call.nhwc else (tile["BO"], tile["BP"])
    return rows * (columns + 8) * 4


def cuts(blocks: int, most: int) -> int:
    """Into how many parts to cut the reduction, a power of two, as long as each multiprocessor has at most a block."""
    parts = 1
    while 2 * parts <= min(most, MOST_PARTS) and 2 * parts * blocks <= cuda.multiprocessors():
        parts *= 2
    return parts


LAUNCHES: dict[str, Callable[..., Launch]] = {
    "naive": naive,
    "direct": direct,
    "implicit_gemm": implicit_gemm,
    "tensor_cores": tensor_cores,
    "halo": halo,
}


def _im2col_gemm(call: Convolution) -> None:
    """For each image and group, multiply the weights (O/G, K) by im2col's columns (K, oH·oW)."""
    window = {"dilation": call.dilation, "padding": call.padding, "stride": call.stride}
    pixels = math.prod(call.out.shape[2:])
    finished = call.bias is None and call.residual is None and call.bounds == checks.bounds(None)
    product = call.out if finished else cuda.workspace(call.out.shape, call.out.dtype)
    matrix = call.weight.reshape(call.groups, call.outs, -1)
    columns = cuda.workspace((1, matrix.shape[2], pixels), call.x.dtype)  # of one image and group, reused
    for image in range(len(call.x)):
        for group in range(call.groups):
            channels = slice(group * call.channels, (group + 1) * call.channels)
            im2col(call.x[image : image + 1, channels], call.weight.shape[2:], out=columns, **window)
            outs = slice(group * call.outs, (group + 1) * call.outs)
            gemm(matrix[group], columns[0], out=product[image, outs].reshape(call.outs, pixels))
    if not finished:
        # gemm's bias is per column, this one per row: apply the rest in a second pass, a 1×1 depthwise of weight 1
        ones = cuda.full((len(call.weight), 1, 1, 1), 1, call.x.dtype)
        rest = Convolution(
            product, ones, call.bias, call.residual, call.out, "NCHW", (1, 1), ((0, 0), (0, 0)), (1, 1), len(ones),
            call.bounds,
        )  # fmt: skip
        naive(rest).run(rest)


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
    arithmetic: str | Halves | None = None,
) -> Any:
    """out = activation(conv2d(x, weight) + bias + residual): torch.nn.functional.conv2d with a fused epilogue.

    x: (N, C, H, W), weight: (O, C/groups, kH, kW), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW);
    all NCHW or all NHWC in memory, float32 or float16, accumulated in float32. stride, dilation: an int or a pair
    (height, width); padding: an int, a pair, or ((top, bottom), (left, right)). activation: None, "relu", "relu6" or
    bounds (low, high). variant: a rung; default: the fastest, with 1×1 kernels run by pointwise and depthwise
    convolutions by depthwise. arithmetic: of float32 products, see kernels/halves.py: "fma" or "tf32x3", and what
    pointwise takes for a 1×1 kernel; None: what is fastest.
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    checks.array("x", x, (None,) * 4, allowed=layouts.LAYOUTS)
    checks.array("weight", weight, None, like=x, allowed=layouts.LAYOUTS)
    s, pads, d, shape = checks.convolution(x.shape, weight.shape, stride, padding, dilation, groups)
    if bias is not None:
        checks.array("bias", bias, shape[1:2], like=x)
    if residual is not None:
        checks.array("residual", residual, shape, like=x, allowed=layouts.LAYOUTS)
    if out is not None:
        checks.array("out", out, shape, like=x, allowed=layouts.LAYOUTS)
    layout = layouts.shared_layout(x=x, weight=weight, residual=residual, out=out)
    bounds = checks.bounds(activation)
    products = checked(arithmetic, x, weight)
    out = checks.output(out, shape, like=x, layout=layout)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual)
    call = Convolution(x, weight, bias, residual, out, layout, s, pads, d, groups, bounds)

    if variant is None and _is_pointwise(call):
        return pointwise(x, weight, bias, residual=residual, activation=activation, out=out, arithmetic=arithmetic)
    if variant is None and groups == x.shape[1] == len(weight):
        return depthwise(x, weight, bias, stride, padding, dilation, residual=residual, activation=activation, out=out)
    variant = ladder.choose(variant, x.dtype, layout, _best(call, products), products)
    if variant == "im2col_gemm":
        _im2col_gemm(call)
    else:
        LAUNCHES[variant](call).run(call)
    return out


def _is_pointwise(call: Convolution) -> bool:
    plain = call.stride == (1, 1) and call.padding == ((0, 0), (0, 0)) and call.groups == 1
    return call.weight.shape[2:] == (1, 1) and plain


def _best(call: Convolution, arithmetic: str | None = None) -> list[str]:
    """Rungs that suit a convolution, the best first."""
    if cuda.backend() == "simulator" and arithmetic in (None, "fma"):  # barriers and fragments are slow on a CPU
        return ["direct" if call.outs >= 4 else "naive"]
    if call.outs < 8:  # most of a tile would be empty
        return ["direct"]
    return ["tensor_cores", "implicit_gemm"]
