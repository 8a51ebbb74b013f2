"""depthwise: depthwise convolution (one filter per channel) with fused bias, residual and activation."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda
from ...cuda import checks, layout
from ...cuda.device import for_a_card
from .. import vectors
from ..ladder import Ladder, Rung

ALL = ("float32", "float16", "float64")
# the convolution's geometry, for which every rung but the first is compiled
GEOMETRY = {"KH": 3, "KW": 3, "STRIDE_H": 1, "STRIDE_W": 1, "DILATION_H": 1, "DILATION_W": 1}
NHWC = GEOMETRY | {"FIXED": 0, "RESIDUAL": 0}

ladder = Ladder(
    __file__,
    {
        "naive": Rung({"NHWC": 0}, dtypes=ALL, layouts=layout.LAYOUTS),
        "rows": Rung({"TH": 8} | GEOMETRY, dtypes=ALL),
        "tile": Rung({"TILE_H": 8, "TILE_W": 32, "PLANES": 1} | GEOMETRY, dtypes=ALL),
        "vectorised": Rung({"V": 4} | GEOMETRY, layouts=("NHWC",)),
        "register_tile": Rung(
            {"V": 4, "TH": 2, "TW": 2, "LANES": 8, "THREADS": 128, "BLOCKS": 4} | NHWC, layouts=("NHWC",)
        ),
        "async_tile": Rung(
            {"V": 2, "TH": 7, "TW": 4, "LANES": 16, "ACROSS": 7, "DOWN": 1, "PIECE": 4} | NHWC, layouts=("NHWC",)
        ),
    },
)

DTYPES = tuple(np.dtype(name) for name in ALL)


@dataclass(frozen=True)
class Shape:
    """Sizes of a depthwise convolution: input n, c, h, w; output oh, ow; kernel, stride, dilation (height, width)."""

    n: int
    c: int
    h: int
    w: int
    oh: int
    ow: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int  # padding
    left: int
    itemsize: int

    @property
    def taps(self) -> int:
        """Positions of the kernel window, kH · kW."""
        return math.prod(self.kernel)

    @property
    def geometry(self) -> dict[str, int]:
        """Kernel, stride and dilation as -D options."""
        values = (*self.kernel, *self.stride, *self.dilation)
        return dict(zip(GEOMETRY, values, strict=True))

    def reach(self, outputs: int, side: int) -> int:
        """Number of inputs under the windows of `outputs` neighbouring outputs, along height (0) or width (1)."""
        return (outputs - 1) * self.stride[side] + (self.kernel[side] - 1) * self.dilation[side] + 1

    def constants(self) -> dict[str, int]:
        """The sizes without the batch as -D options, compile-time constants for the index arithmetic."""
        names = ("C", "H", "W", "OH", "OW", "TOP", "LEFT")
        values = (self.c, self.h, self.w, self.oh, self.ow, self.top, self.left)
        return {"FIXED": 1} | {f"FIXED_{name}": value for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True)
class Launch:
    """How to launch a rung: -D options, grid, threads per block, bytes of dynamic shared memory."""

    switches: dict[str, Any]
    grid: tuple[int, ...]
    threads: int
    shared: int = 0


def _naive(shape: Shape, where: str) -> Launch:
    outputs = shape.n * shape.c * shape.oh * shape.ow
    return Launch({"NHWC": int(where == "NHWC")}, (checks.blocks(outputs, 256),), 256)


def _rows(shape: Shape) -> Launch:
    th = min(8, shape.oh)
    columns = checks.blocks(shape.n * shape.c * shape.ow, 128)
    return Launch(shape.geometry | {"TH": th}, (columns, min(checks.blocks(shape.oh, th), 65_535)), 128)


def _tile(shape: Shape) -> Launch:
    """Tiles of at most 8 × 32 outputs; several planes per block if they are small, smaller tiles for a large halo."""
    tile_w = min(32, shape.ow)
    tile_h = min(256 // tile_w, shape.oh)
    planes = min(256 // (tile_h * tile_w), shape.n * shape.c)

    def shared() -> int:
        return planes * shape.reach(tile_h, 0) * shape.reach(tile_w, 1) * shape.itemsize

    while shared() > cuda.SHARED_DEFAULT and (planes, tile_h, tile_w) != (1, 1, 1):
        planes, tile_h, tile_w = (
            (planes // 2, tile_h, tile_w) if planes > 1 else (1, max(1, tile_h // 2), max(1, tile_w // 2))
        )
    if shared() > cuda.SHARED_DEFAULT:
        raise ValueError(_exceeds_shared("tile", shape, shared(), cuda.SHARED_DEFAULT))
    tiles = checks.blocks(shape.oh, tile_h) * checks.blocks(shape.ow, tile_w)
    switches = shape.geometry | {"TILE_H": tile_h, "TILE_W": tile_w, "PLANES": planes}
    return Launch(switches, (checks.blocks(shape.n * shape.c, planes) * tiles,), 256)


def _exceeds_shared(variant: str, shape: Shape, needed: int, most: int) -> str:
    reach = f"{shape.reach(1, 0)} × {shape.reach(1, 1)}"
    return (
        f"depthwise: variant {variant!r} keeps the {reach} inputs of an output in {most} bytes of shared memory, got"
        f" a kernel that needs {needed}; variant='naive' takes it"
    )


def _vectorised(shape: Shape, widest: int) -> Launch:
    v = _channels(shape, widest)
    outputs = shape.n * shape.c * shape.oh * shape.ow
    return Launch(shape.geometry | {"V": v}, (checks.blocks(outputs // v, 128),), 128)


def _channels(shape: Shape, widest: int, most: int = 4) -> int:
    """Channels per thread: at most `most`, fewer if `widest` is less or the weights would exceed the registers."""
    while most > 1 and most * shape.taps > 98:
        most //= 2
    return min(widest, most)


def register_tile(shape: Shape, widest: int) -> dict[str, int]:
    """-D options of the rung "register_tile", tuned on an H200: outputs per thread, fewer if threads would be too few.

    widest: the widest vector access in elements.
    """
    v = _channels(shape, widest)
    large = (2, 2)
    if shape.taps <= 9 and shape.oh <= 7:
        large = (shape.oh, 1)
    elif shape.taps <= 9 and shape.itemsize == 2:
        large = (4, 2) if shape.oh >= 28 else (7, 1)

    def threads(th: int, tw: int) -> int:
        return shape.n * checks.blocks(shape.oh, th) * checks.blocks(shape.ow, tw) * (shape.c // v)

    processors = cuda.multiprocessors()
    if shape.taps <= 98 and threads(*large) >= 128 * processors:
        th, tw = large
        per_block = {"LANES": 16 if shape.itemsize == 2 else 8, "THREADS": 128, "BLOCKS": 4 if shape.taps <= 9 else 2}
    else:
        sizes = ((2, 2), (2, 1), (1, 1)) if shape.taps <= 98 else ((1, 1),)
        th, tw = next((size for size in sizes if threads(*size) >= 64 * processors), (1, 1))
        per_block = {"LANES": 8, "THREADS": 64, "BLOCKS": 1}
    return {"V": v, "TH": th, "TW": tw} | per_block


def async_tile(shape: Shape, widest: int) -> dict[str, int]:
    """-D options of the rung "async_tile", tuned on an H200: a block as wide as the image if that fits.

    widest: the widest vector access in elements.
    """
    v = _channels(shape, widest, 2)
    half = shape.itemsize == 2
    wide = 7 if half and shape.taps <= 9 and shape.dilation == (1, 1) else 4  # more sums than registers, else
    th = _even(shape.oh, 7 if shape.taps <= 49 else 1)
    tw = _even(shape.ow, 1 if shape.taps > 49 else 2 if shape.stride != (1, 1) else wide)
    across, down = checks.blocks(shape.ow, tw), 2 if shape.oh == 2 * th else 1
    lanes, most = 64 // (v * shape.itemsize), 256 // (v * shape.itemsize)  # 64 to 256 bytes of channels
    while lanes < most and 2 * lanes * across * down <= (128 if half else 224):
        lanes *= 2

    def size() -> dict[str, int]:
        return {"V": v, "TH": th, "TW": tw, "LANES": lanes, "ACROSS": across, "DOWN": down, "PIECE": widest}

    while lanes * across * down > 512 or shared_of(shape, size()) > 76 * 1024:
        if down > 1:
            down = 1
        elif lanes * across > 512:
            across = checks.blocks(across, 2)
        elif th > 1:
            th = checks.blocks(th, 2)
        elif across > 1:
            across = checks.blocks(across, 2)
        elif tw > 1:
            tw = checks.blocks(tw, 2)
        elif lanes > max(1, widest // v):
            lanes //= 2
        else:
            break
    return size()


def _even(extent: int, most: int) -> int:
    """The size of the most even division of `extent` into parts of at most `most`: 8 into 4 + 4, not 7 + 1."""
    return checks.blocks(extent, checks.blocks(extent, most))


def shared_of(shape: Shape, sizes: dict[str, int]) -> int:
    """Bytes of shared memory per block of the rung "async_tile": the tile with its halo, and the weights."""
    channels = sizes["LANES"] * sizes["V"]
    rows, columns = shape.reach(sizes["TH"] * sizes["DOWN"], 0), shape.reach(sizes["TW"] * sizes["ACROSS"], 1)
    return shape.itemsize * channels * (rows * columns + shape.taps)


def _register_tile(shape: Shape, widest: int, residual: bool) -> Launch:
    sizes = register_tile(shape, widest)
    tiles = shape.n * checks.blocks(shape.oh, sizes["TH"]) * checks.blocks(shape.ow, sizes["TW"])
    blocks = checks.blocks(shape.c, sizes["LANES"] * sizes["V"])
    blocks *= checks.blocks(tiles, sizes["THREADS"] // sizes["LANES"])
    return Launch(_nhwc_switches(shape, residual) | sizes, (blocks,), sizes["THREADS"])


def _async_tile(shape: Shape, widest: int, residual: bool) -> Launch:
    sizes = async_tile(shape, widest)
    shared = shared_of(shape, sizes)
    if shared > cuda.SHARED_SM80:
        raise ValueError(_exceeds_shared("async_tile", shape, shared, cuda.SHARED_SM80))
    across = checks.blocks(shape.ow, sizes["TW"] * sizes["ACROSS"])
    down = checks.blocks(shape.oh, sizes["TH"] * sizes["DOWN"])
    blocks = checks.blocks(shape.c, sizes["LANES"] * sizes["V"]) * across * down * shape.n
    threads = sizes["LANES"] * sizes["ACROSS"] * sizes["DOWN"]
    return Launch(_nhwc_switches(shape, residual) | sizes, (blocks,), threads, shared)


def _nhwc_switches(shape: Shape, residual: bool) -> dict[str, int]:
    # on the simulator, compiling for each shape would cost more than it saves
    fixed = shape.constants() if for_a_card() else {}
    return shape.geometry | {"RESIDUAL": int(residual)} | fixed


def _best(shape: Shape, where: str) -> list[str]:
    """Rungs that suit this convolution, the best first; measured on an H200."""
    far = max(shape.reach(1, 0), shape.reach(1, 1))
    if cuda.backend() == "simulator" or shape.taps > 49 or far > 40:
        return ["naive"]  # tiles are slow on a CPU, and windows this large should not be unrolled
    if where == "NCHW":
        return ["rows"]
    if shape.stride == (1, 1) and far <= 8:
        sizes = async_tile(shape, 16 // shape.itemsize)
        blocks = checks.blocks(shape.c, sizes["LANES"] * sizes["V"]) * shape.n
        blocks *= checks.blocks(shape.oh, sizes["TH"] * sizes["DOWN"])
        if blocks >= cuda.multiprocessors():
            return ["async_tile", "register_tile", "naive"]
    return ["register_tile", "naive"]


@cuda.operator
def depthwise(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    *,
    activation: Any = None,
    residual: Any = None,
    out: Any = None,
    variant: str | None = None,
) -> Any:
    """out = activation(conv2d(x, weight, groups=C) + bias + residual): one filter per channel.

    x: (N, C, H, W) in NCHW or NHWC, weight: (C, 1, kH, kW), C-contiguous, bias: (C,) or None, residual: as out or
    None, out: (N, C, oH, oW) in the layout of x. float32, float16 (accumulated in float32) or float64.
    stride, dilation: an int or a pair (height, width); padding: an int, a pair, or ((top, bottom), (left, right)).
    activation: None, "relu", "relu6" or bounds (low, high).
    Raises TypeError if an argument is not an array or has an unsupported or different dtype;
    ValueError if a shape, layout, option or variant is invalid.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=layout.LAYOUTS, dtypes=DTYPES).shape
    _, _, kh, kw = checks.array("weight", weight, (c, 1, None, None), like=x, dtypes=DTYPES).shape
    strides, (rows, columns), dilations, (_, _, oh, ow) = checks.convolution(
        x.shape, weight.shape, stride, padding, dilation, c
    )
    if bias is not None:
        checks.array("bias", bias, (c,), like=x, dtypes=DTYPES)
    if residual is not None:
        checks.array("residual", residual, (n, c, oh, ow), like=x, allowed=layout.LAYOUTS, dtypes=DTYPES)
    if out is not None:
        checks.array("out", out, (n, c, oh, ow), like=x, allowed=layout.LAYOUTS, dtypes=DTYPES)
    low, high = checks.bounds(activation)
    where = _layout(variant, x, residual, out)
    out = checks.output(out, (n, c, oh, ow), like=x, layout=where)
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual)

    dtype = np.dtype(x.dtype)
    shape = Shape(n, c, h, w, oh, ow, (kh, kw), strides, dilations, rows[0], columns[0], dtype.itemsize)
    variant = ladder.choose(variant, dtype, where, best=_best(shape, where))
    x, residual, stored = (array if array is None else layout.as_stored(array) for array in (x, residual, out))
    given = [array for array in (x, weight, bias, residual, stored) if array is not None]
    if variant == "naive":
        launch = _naive(shape, where)
    elif variant == "rows":
        launch = _rows(shape)
    elif variant == "tile":
        launch = _tile(shape)
    elif variant == "vectorised":
        launch = _vectorised(shape, vectors.vector_width(*given, row=c))
    elif variant == "register_tile":
        launch = _register_tile(shape, vectors.vector_width(*given, row=c), residual is not None)
    else:
        launch = _async_tile(shape, vectors.vector_width(*given, row=c), residual is not None)

    kernel = ladder.kernel(variant, dtype, **launch.switches)
    cuda.allow_shared(kernel, launch.shared)
    bound = np.float64 if dtype == np.float64 else np.float32
    kernel(
        launch.grid, (launch.threads,),
        (x, weight, bias, residual, stored, n, c, h, w, oh, ow, kh, kw, *strides, rows[0], columns[0], *dilations,
         bound(low), bound(high)),
        shared_mem=launch.shared,
    )  # fmt: skip
    return out


def _layout(variant: str | None, *arrays: Any) -> str:
    """The layout of x, residual and out; if they fit both (one channel or pixel), the variant's."""
    both = all(layout.has(array, name) for array in arrays if array is not None for name in layout.LAYOUTS)
    if both and variant in ladder.rungs:
        return ladder.rungs[variant].layouts[0]
    return layout.shared_layout(**dict(zip(("x", "residual", "out"), arrays, strict=True)))
