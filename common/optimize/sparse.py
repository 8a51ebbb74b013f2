"""A convolution that skips zeros of its input: a kernel written for one shape, its skipping scheme a parameter.

    y = conv2d(x, weight, bias, padding=1, activation="relu", scheme="pixels")       all arrays NHWC
    source(shape, "ballot", rule(shape, "ballot", 4), "float32")                     CUDA C++ that includes sparse.h

Schemes, and what they need to find zero in order to save something:

    ballot       one element: for each one that is not zero, FMA with a row of weights out of L1
    pixels       32 channels of a pixel: lists of the others, several of which share each weight they are multiplied by
    tiles        32 channels of a tile of pixels: a slice of work for tensor cores
    dense        nothing is skipped: `pixels` with all pixels in its lists
    dense_tiles  nothing is skipped: `tiles`

Convolutions of one channel a group are computed a lane a channel in all schemes, and skip 32 channels of a pixel under
one tap. What is skipped adds nothing, even where the weight is infinite; NaN is not zero, −0.0 is.
"""

import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels.ladder import prepared, run_or_record
from . import generate
from .generate import ceil_div

SCHEMES = ("ballot", "pixels", "tiles", "dense", "dense_tiles")
DENSE = {"ballot": "dense", "pixels": "dense", "tiles": "dense_tiles"}  # the same without skipping, or nearest to it
PREFIX = "sparse/"  # of a scheme, as the implementation that records name: "sparse/ballot"
KERNEL = "sparse_conv2d"
CHUNK = 32  # channels at a time: a warp's lanes
ROW = 8  # a row of packed weights is a multiple of so many
WARPS = 8  # of a multiprocessor, that hide the latency of loads
ENDLESS = (-math.inf, math.inf)


@dataclass(frozen=True)
class Shape:
    """A convolution: what it computes. padding: ((top, bottom), (left, right)); bounds: what it is clamped to."""

    batch: int
    channels: int
    height: int
    width: int
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: checks.Pads = ((0, 0), (0, 0))
    groups: int = 1
    bounds: tuple[float, float] = ENDLESS

    @property
    def x(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the input."""
        return self.batch, self.channels, self.height, self.width

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """(O, C/groups, kH, kW)."""
        return self.outputs, self.channels // self.groups, *self.kernel

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        extents = zip((self.height, self.width), self.kernel, self.stride, self.padding, strict=True)
        rows, columns = (checks.windows(extent, k, s, pads, 1) for extent, k, s, pads in extents)
        return rows, columns

    @property
    def y(self) -> tuple[int, int, int, int]:
        """(N, O, oH, oW) of the output."""
        return self.batch, self.outputs, *self.out_size

    @property
    def depthwise(self) -> bool:
        """Whether each output channel reads an input channel of its own."""
        return self.groups == self.channels == self.outputs

    @property
    def terms(self) -> int:
        """Products that are added up for one output."""
        return math.prod(self.weight[1:])

    @property
    def macs(self) -> int:
        """Multiply-accumulates, none skipped."""
        return math.prod(self.y) * self.terms

    def __str__(self) -> str:
        """Without the batch: "56×56 64>256 1×1", "28×28 128>128 3×3 stride 2"."""
        more = f" stride {self.stride[0]}" if self.stride != (1, 1) else ""
        more += f" groups {self.groups}" if self.groups > 1 else ""
        kernel = "×".join(map(str, self.kernel))
        return f"{self.height}×{self.width} {self.channels}>{self.outputs} {kernel}{more}"


@dataclass(frozen=True)
class Tile:
    """How it is computed. What is best depends on the card: `rule` is a guess.

    tile_h, tile_w: output pixels of a thread block; tile_h 1: so many in a row, across rows and images. outputs: output
    channels of it. warps: of it; they share the products of the same outputs, in `tiles` the outputs. vector: output
    channels of a lane. rows: pixels that a warp takes at once; in `tiles` how many warps lie side by side along the
    pixels. stages: of `tiles`, slices in shared memory.
    """

    tile_h: int
    tile_w: int
    outputs: int
    warps: int
    vector: int = 1
    rows: int = 4
    stages: int = 3

    @property
    def pixels(self) -> int:
        """Output pixels of a thread block."""
        return self.tile_h * self.tile_w


def skips(implementation: str) -> bool:
    """Whether an implementation that records name leaves out zeros: a sparse kernel, but not one of its dense twins."""
    return implementation.startswith(PREFIX) and "dense" not in implementation


def kind_of(shape: Shape, scheme: str) -> str:
    """Which of the kernels of sparse.h computes a shape in a scheme: pixels, ballot, tiles or channels."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    if shape.depthwise:
        return "channels"
    return {"dense": "pixels", "dense_tiles": "tiles"}.get(scheme, scheme)


def blocks_of(shape: Shape, tile: Tile) -> int:
    """Thread blocks of a launch."""
    rows, columns = shape.out_size
    tiles = shape.batch * ceil_div(rows, tile.tile_h) * ceil_div(columns, tile.tile_w)
    if tile.tile_h == 1:
        tiles = ceil_div(shape.batch * rows * columns, tile.tile_w)
    if shape.depthwise:
        return tiles * ceil_div(shape.channels, CHUNK)
    return tiles * ceil_div(shape.outputs // shape.groups, tile.outputs) * shape.groups


def shared_of(shape: Shape, scheme: str, tile: Tile, itemsize: int) -> int:
    """Bytes of shared memory of a thread block."""
    kind = kind_of(shape, scheme)
    if kind == "channels":
        return 0
    if kind == "tiles":
        pitch = CHUNK + 16 // itemsize
        stages = tile.stages * (tile.pixels + tile.outputs) * pitch * itemsize
        return max(stages, tile.pixels * (tile.outputs + 8) * 4)
    lists = tile.pixels * CHUNK * 4 if kind == "pixels" else 0  # the channels of the listed pixels
    return tile.warps * (tile.pixels * tile.outputs * 4 + lists)


def problem(shape: Shape, scheme: str, tile: Tile, itemsize: int, shared_memory: int) -> str | None:
    """Why it cannot be, in words; None if it can."""
    kind = kind_of(shape, scheme)
    needed = shared_of(shape, scheme, tile, itemsize)
    of_tiles = tile.pixels % (16 * tile.rows) == 0 and tile.warps % tile.rows == 0
    side = tile.warps // tile.rows if tile.rows and tile.warps % tile.rows == 0 else 1
    checked = (
        (1 <= tile.warps <= 32, f"warps must be from 1 to 32, got {tile.warps}"),
        (
            kind in ("tiles", "channels") or (tile.pixels % 8 == 0 and tile.pixels <= CHUNK),
            f"a tile must have 8, 16, 24 or 32 pixels, got {tile.pixels}",
        ),
        (
            kind in ("tiles", "channels") or tile.outputs == CHUNK * tile.vector,
            f"outputs must be 32 for each of the {tile.vector} of a lane, got {tile.outputs}",
        ),
        (
            kind in ("tiles", "channels") or tile.vector in (1, 2, 4, 8),
            f"vector must be 1, 2, 4 or 8, got {tile.vector}",
        ),
        (
            kind != "ballot" or tile.pixels % tile.rows == 0,
            f"rows must divide the {tile.pixels} pixels, got {tile.rows}",
        ),
        (kind != "tiles" or of_tiles, f"{tile.rows} rows of warps must divide {tile.warps} warps, 16 pixels each"),
        (
            kind != "tiles" or tile.outputs % (16 * side) == 0,
            f"outputs must be a multiple of 16 for each of {side} warps, got {tile.outputs}",
        ),
        (kind != "tiles" or tile.stages >= 2, f"stages must be at least 2, got {tile.stages}"),
        (needed <= shared_memory, f"needs {needed:,} bytes of shared memory, there are {shared_memory:,}"),
    )
    return next((text for good, text in checked if not good), None)


def rule(shape: Shape, scheme: str, itemsize: int, multiprocessors: int = 132) -> Tile:
    """A sane tile: as large as leaves each multiprocessor a block or two."""
    kind = kind_of(shape, scheme)
    outs, steps = shape.outputs // shape.groups, shape.terms // shape.weight[1] * ceil_div(shape.weight[1], CHUNK)
    if kind == "channels":
        return Tile(1, 32, CHUNK, 4)
    if kind == "tiles":
        wide = 32 if outs <= 32 else 64
        flat = min(shape.out_size) < 3  # no tile to speak of
        for h, w, rows in ((8, 8, 2), (4, 8, 2), (4, 4, 1)):
            warps = 2 if (h * w, wide) == (16, 32) else 4
            tile = Tile(1 if flat else h, h * w if flat else w, wide, warps, rows=rows)
            if blocks_of(shape, tile) >= multiprocessors:
                break
        return tile
    # the largest with which there are WARPS of them on a multiprocessor; where even the smallest has fewer, more warps
    # share the products of a block
    wanted = WARPS * multiprocessors
    vectors = [v for v in (4, 2, 1) if v == 1 or outs > CHUNK * v // 2]
    for vector, pixels in itertools.product(vectors, (16, 8)):
        rows = 4 if kind == "ballot" or vector == 4 else 8
        tile = Tile(1, pixels, CHUNK * vector, max(1, min(4, steps)), vector, rows)
        blocks = blocks_of(shape, tile)
        if blocks * tile.warps >= wanted:
            return tile
    return dataclasses.replace(tile, warps=max(1, min(16, steps, ceil_div(wanted, blocks))))


def source(shape: Shape, scheme: str, tile: Tile, dtype: str) -> str:
    """The kernel for a shape, a scheme, a tile and a dtype, "float32" or "float16"."""
    low, high = (generate.literal(float(bound)) for bound in shape.bounds)
    rows, columns = shape.out_size
    numbers = {
        "B": shape.batch, "C": shape.channels, "H": shape.height, "W": shape.width, "O": shape.outputs,
        "KH": shape.kernel[0], "KW": shape.kernel[1], "STRIDE_H": shape.stride[0], "STRIDE_W": shape.stride[1],
        "TOP": shape.padding[0][0], "LEFT": shape.padding[1][0], "OUT_H": rows, "OUT_W": columns,
        "GROUPS": shape.groups, "TILE_H": tile.tile_h, "TILE_W": tile.tile_w, "BO": tile.outputs, "V": tile.vector,
        "ROWS": tile.rows, "SPLIT": tile.warps, "STAGES": tile.stages,
    }  # fmt: skip
    told = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    kind = kind_of(shape, scheme)
    T = generate.TYPES[dtype]
    stored = "weight" if kind == "tiles" else "packed"
    return f"""// requires: sm_80
#include "sparse.h"

struct Shape {{  // {shape}, {scheme}
    using T = {T};
    static constexpr bool SKIP = {"false" if scheme in DENSE.values() else "true"};
    static constexpr int {told};
    __device__ static float low() {{ return {low}; }}
    __device__ static float high() {{ return {high}; }}
}};

extern "C" __global__ void __launch_bounds__({32 * tile.warps})
{KERNEL}(const {T}* __restrict__ x, const {T}* __restrict__ {stored}, const {T}* __restrict__ bias,
    const {T}* __restrict__ residual, {T}* __restrict__ y) {{
    extern __shared__ uint4 shared[];
    by_{kind}<Shape>(shared, x, {stored}, bias, residual, y);
}}
"""


# ---- Weights


def packed_shape(weight: tuple[int, ...], groups: int = 1) -> tuple[int, ...]:
    """The shape of packed weights: a row of output channels for each product, filled up to a multiple of 8.

    (groups, kH·kW·C/groups, O/groups filled up); of depthwise weights (kH·kW, C).
    """
    o, c, kh, kw = weight
    if c == 1 and groups == o:
        return kh * kw, o
    return groups, kh * kw * c, ceil_div(o // groups, ROW) * ROW


def pack(weight: Any, groups: int = 1, out: Any = None) -> Any:
    """Weights (O, C/groups, kH, kW) of any layout in the order in which all schemes but `tiles` read them.

    What fills up a row is zero. A network packs its weights once and gives them as conv2d(packed=…).
    """
    checks.array("weight", weight, (None,) * 4, allowed=layouts.LAYOUTS)
    o, c, kh, kw = weight.shape
    shape = packed_shape(weight.shape, groups)
    if out is None:
        out = cuda.empty(shape, weight.dtype)
    if len(shape) == 2:
        out[...] = weight.reshape(o, kh * kw).T
        return out
    out[...] = 0
    rows = weight.reshape(groups, o // groups, c, kh, kw).transpose(0, 3, 4, 2, 1)
    out[:, :, : o // groups] = rows.reshape(groups, kh * kw * c, o // groups)
    return out


# ---- The operator


@cuda.operator
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    groups: int = 1,
    *,
    residual: Any = None,
    activation: Any = None,
    scheme: str = "pixels",
    packed: Any = None,
    tile: Tile | None = None,
    out: Any = None,
) -> Any:
    """out = activation(conv2d(x, weight) + bias + residual), its zero inputs skipped as `scheme` says: needs sm_80.

    x: (N, C, H, W), weight: (O, C/groups, kH, kW), bias: (O,) or None, residual: as out or None, out: (N, O, oH, oW);
    all NHWC in memory (a lane reads a channel, and zeros of a pixel lie side by side), float32 or float16, accumulated
    in float32; fp32 on tensor cores (`tiles`) as three TF32 products. stride, padding, activation: as in
    common.kernels.conv2d. scheme: one of SCHEMES. packed: pack(weight, groups), without which all schemes but `tiles`
    pack the weights in every call. tile: how it is computed, by default `rule`'s.
    The result is that of a dense convolution but for the order of its sums, and for infinite weights: a zero that is
    skipped adds nothing, where a dense convolution adds 0·∞, NaN. ValueError and TypeError name what does not fit.
    """
    allowed = ("NHWC",)
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=allowed).shape
    checks.array("weight", weight, None, like=x, allowed=allowed)
    s, pads, _, made = checks.convolution(x.shape, weight.shape, stride, padding, 1, groups)
    if bias is not None:
        checks.array("bias", bias, made[1:2], like=x)
    if residual is not None:
        checks.array("residual", residual, made, like=x, allowed=allowed)
    low, high = map(float, checks.bounds(activation))
    kernel_size = (int(weight.shape[2]), int(weight.shape[3]))
    shape = Shape(n, c, h, w, made[1], kernel_size, s, pads, groups, (low, high))
    kind, dtype, itemsize = kind_of(shape, scheme), np.dtype(x.dtype).name, x.dtype.itemsize
    tile = tile or rule(shape, scheme, itemsize, cuda.multiprocessors())
    if wrong := problem(shape, scheme, tile, itemsize, cuda.shared_memory()):
        raise ValueError(f"sparse conv2d {shape}, {scheme}: {wrong}")
    if packed is not None:
        checks.array("packed", packed, packed_shape(weight.shape, groups), like=x)
    out = checks.output(out, made, like=x, layout="NHWC")
    rows = weight
    if kind != "tiles":
        rows = cuda.empty(packed_shape(weight.shape, groups), x.dtype) if packed is None else packed
        if packed is None:
            run_or_record("sparse/pack", functools.partial(pack, weight, groups, rows))
    kernel = prepared(
        f"sparse/{scheme}", functools.partial(generate.compiled, source(shape, scheme, tile, dtype), KERNEL)
    )
    shared = shared_of(shape, scheme, tile, itemsize)
    cuda.allow_shared(kernel, shared)
    arrays = (x, rows, bias, residual, out)
    stored = tuple(array if array is None else layouts.as_stored(array) for array in arrays)
    kernel((blocks_of(shape, tile),), (32 * tile.warps,), stored, shared_mem=shared)
    return out
