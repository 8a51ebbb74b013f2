"""A convolution that skips zeros of its input: a kernel generated for one shape and one skipping scheme.

    y = conv2d(x, weight, bias, padding=1, activation="relu", scheme="pixels")       all arrays NHWC
    source(shape, "ballot", rule(shape, "ballot", 4), "float32")                     CUDA C++ that includes sparse.h

Schemes, and the unit of zeros that each can skip:

    ballot       one element: an FMA with a row of weights from L1 for each nonzero element
    pixels       32 channels of a pixel: lists of the other pixels, several of which share each weight that is loaded
    tiles        32 channels of a tile of pixels: a slice of work for tensor cores
    dense        nothing is skipped: `pixels` with all pixels in its lists
    dense_tiles  nothing is skipped: `tiles`

Depthwise convolutions are computed with one lane per channel in all schemes, and skip 32 channels of a pixel for one
tap of the kernel. A skipped zero contributes nothing, even if the weight is infinite. NaN is not zero, −0.0 is.
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
DENSE = {"ballot": "dense", "pixels": "dense", "tiles": "dense_tiles"}  # scheme → the nearest one without skipping
PREFIX = "sparse/"  # before a scheme in the implementation of a record: "sparse/ballot"
KERNEL = "sparse_conv2d"
CHUNK = 32  # channels at a time: one per lane of a warp
ROW = 8  # elements: rows of packed weights are padded to a multiple of it
WARPS = 8  # per multiprocessor, to hide the latency of loads
ENDLESS = (-math.inf, math.inf)


@dataclass(frozen=True)
class Shape:
    """The shape of a convolution. padding: ((top, bottom), (left, right)); bounds: (low, high) of the activation."""

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
        """(O, C/groups, kH, kW) of the weights."""
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
        """Whether each output channel reads one input channel of its own."""
        return self.groups == self.channels == self.outputs

    @property
    def terms(self) -> int:
        """Products summed per output element."""
        return math.prod(self.weight[1:])

    @property
    def macs(self) -> int:
        """Multiply-accumulates without skipping."""
        return math.prod(self.y) * self.terms

    def __str__(self) -> str:
        """The shape without the batch: "56×56 64>256 1×1", "28×28 128>128 3×3 stride 2"."""
        more = f" stride {self.stride[0]}" if self.stride != (1, 1) else ""
        more += f" groups {self.groups}" if self.groups > 1 else ""
        kernel = "×".join(map(str, self.kernel))
        return f"{self.height}×{self.width} {self.channels}>{self.outputs} {kernel}{more}"


@dataclass(frozen=True)
class Tile:
    """The tiling of a convolution. The best one depends on the card; `rule` guesses one.

    tile_h, tile_w   output pixels per thread block; with tile_h 1, tile_w consecutive pixels across rows and images
    outputs          output channels per thread block
    warps            warps per thread block: they split the products of the same outputs; in `tiles`, the outputs
    vector           output channels per lane
    rows             pixels that a warp computes at once; in `tiles`, number of warps along the pixels
    stages           in `tiles`: slices in shared memory
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
        """Output pixels per thread block."""
        return self.tile_h * self.tile_w


def skips(implementation: str) -> bool:
    """Whether the implementation of a record skips zeros: a sparse kernel, but not a dense scheme of this module."""
    return implementation.startswith(PREFIX) and "dense" not in implementation


def kind_of(shape: Shape, scheme: str) -> str:
    """The kernel of sparse.h for a shape and a scheme: "pixels", "ballot", "tiles" or "channels" (depthwise).

    ValueError for an unknown scheme.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    if shape.depthwise:
        return "channels"
    return {"dense": "pixels", "dense_tiles": "tiles"}.get(scheme, scheme)


def blocks_of(shape: Shape, tile: Tile) -> int:
    """Number of thread blocks of a launch."""
    rows, columns = shape.out_size
    tiles = shape.batch * ceil_div(rows, tile.tile_h) * ceil_div(columns, tile.tile_w)
    if tile.tile_h == 1:
        tiles = ceil_div(shape.batch * rows * columns, tile.tile_w)
    if shape.depthwise:
        return tiles * ceil_div(shape.channels, CHUNK)
    return tiles * ceil_div(shape.outputs // shape.groups, tile.outputs) * shape.groups


def shared_of(shape: Shape, scheme: str, tile: Tile, itemsize: int) -> int:
    """Bytes of shared memory per thread block."""
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
    """Why the tile is not possible, in words; None if it is. shared_memory: bytes per thread block of the card."""
    kind = kind_of(shape, scheme)
    needed = shared_of(shape, scheme, tile, itemsize)
    warps_fit = tile.pixels % (16 * tile.rows) == 0 and tile.warps % tile.rows == 0
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
        (kind != "tiles" or warps_fit, f"{tile.rows} rows of warps must divide {tile.warps} warps, 16 pixels each"),
        (
            kind != "tiles" or tile.outputs % (16 * side) == 0,
            f"outputs must be a multiple of 16 for each of {side} warps, got {tile.outputs}",
        ),
        (kind != "tiles" or tile.stages >= 2, f"stages must be at least 2, got {tile.stages}"),
        (needed <= shared_memory, f"needs {needed:,} bytes of shared memory, there are {shared_memory:,}"),
    )
    return next((text for good, text in checked if not good), None)


def rule(shape: Shape, scheme: str, itemsize: int, multiprocessors: int = 132) -> Tile:
    """A reasonable tile: the largest that still gives each multiprocessor one or two thread blocks."""
    kind = kind_of(shape, scheme)
    outs, steps = shape.outputs // shape.groups, shape.terms // shape.weight[1] * ceil_div(shape.weight[1], CHUNK)
    if kind == "channels":
        return Tile(1, 32, CHUNK, 4)
    if kind == "tiles":
        wide = 32 if outs <= 32 else 64
        flat = min(shape.out_size) < 3  # too small for a two-dimensional tile
        for h, w, rows in ((8, 8, 2), (4, 8, 2), (4, 4, 1)):
            warps = 2 if (h * w, wide) == (16, 32) else 4
            tile = Tile(1 if flat else h, h * w if flat else w, wide, warps, rows=rows)
            if blocks_of(shape, tile) >= multiprocessors:
                break
        return tile
    # the largest that gives WARPS warps per multiprocessor; if even the smallest gives fewer, more warps split the
    # products of a thread block
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
    """The source of the kernel for a shape, a scheme, a tile and a dtype, "float32" or "float16"."""
    low, high = (generate.literal(float(bound)) for bound in shape.bounds)
    rows, columns = shape.out_size
    numbers = {
        "B": shape.batch, "C": shape.channels, "H": shape.height, "W": shape.width, "O": shape.outputs,
        "KH": shape.kernel[0], "KW": shape.kernel[1], "STRIDE_H": shape.stride[0], "STRIDE_W": shape.stride[1],
        "TOP": shape.padding[0][0], "LEFT": shape.padding[1][0], "OUT_H": rows, "OUT_W": columns,
        "GROUPS": shape.groups, "TILE_H": tile.tile_h, "TILE_W": tile.tile_w, "BO": tile.outputs, "V": tile.vector,
        "ROWS": tile.rows, "SPLIT": tile.warps, "STAGES": tile.stages,
    }  # fmt: skip
    constants = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    kind = kind_of(shape, scheme)
    T = generate.TYPES[dtype]
    stored = "weight" if kind == "tiles" else "packed"
    return f"""// requires: sm_80
#include "sparse.h"

struct Shape {{  // {shape}, {scheme}
    using T = {T};
    static constexpr bool SKIP = {"false" if scheme in DENSE.values() else "true"};
    static constexpr int {constants};
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
    """The shape of packed weights: (groups, kH·kW·C/groups, O/groups padded to a multiple of ROW).

    A row holds the weights of one input element for all output channels. Depthwise weights: (kH·kW, C).
    weight: (O, C/groups, kH, kW).
    """
    o, c, kh, kw = weight
    if c == 1 and groups == o:
        return kh * kw, o
    return groups, kh * kw * c, ceil_div(o // groups, ROW) * ROW


def pack(weight: Any, groups: int = 1, out: Any = None) -> Any:
    """Weights (O, C/groups, kH, kW) of any layout, in the order in which all schemes but `tiles` read them.

    Returns an array of packed_shape, padded with zeros: `out`, or a new one. Pack weights once and pass them as
    conv2d(packed=…). Errors as of cuda.checks.array.
    """
    checks.array("weight", weight, (None,) * 4, allowed=layouts.LAYOUTS)
    o, c, kh, kw = weight.shape
    shape = packed_shape(weight.shape, groups)
    out = checks.output(out, shape, like=weight)
    checks.apart(out, weight=weight)
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
    """out = activation(conv2d(x, weight) + bias + residual), skipping zeros of x as `scheme` says. Requires sm_80.

    x          (N, C, H, W)
    weight     (O, C/groups, kH, kW)
    bias       (O,) or None
    stride, padding, activation   as in common.kernels.conv2d
    residual   of the shape of out, or None
    scheme     one of SCHEMES
    packed     pack(weight, groups); without it all schemes but `tiles` pack the weights in every call
    tile       default: that of `rule`
    out        (N, O, oH, oW); None: a new array

    All arrays are NHWC in memory (a lane reads one channel, and the zeros of a pixel are adjacent), float32 or float16,
    accumulated in float32; float32 on tensor cores (`tiles`) as three TF32 products. Returns out. The result differs
    from a dense convolution in the order of sums, and for infinite weights: a skipped zero adds nothing, where a dense
    convolution adds 0·∞ = NaN. ValueError and TypeError name the argument that does not fit.
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
    checks.apart(out, x=x, weight=weight, bias=bias, residual=residual, packed=packed)
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
