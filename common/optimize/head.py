"""The head of a network: a 1×1 convolution with its global average pool as one launch, and the linear layer."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import vectors
from ..kernels.ladder import prepared
from ..kernels.pointwise import ladder, persistent
from . import few_rows as on_tensor_cores
from .generate import TYPES, ceil_div, compiled, literal


@dataclass(frozen=True)
class Head:
    """A 1×1 convolution of an image of `pixels` pixels, clamped to bounds, and the mean of each output channel."""

    pixels: int
    channels: int
    outputs: int
    bounds: tuple[float, float] = (0.0, 6.0)

    def __str__(self) -> str:
        return f"head {self.pixels} pixels {self.channels}>{self.outputs}"


@dataclass(frozen=True)
class HeadTile:
    """The tiling of a head, see head.h.

    channels                    output channels per thread block
    warps_c, warps_p, warps_k   warps along output channels, pixels and input channels
    x_stages                    images in shared memory; 2: prefetch one while the other is computed
    beside                      thread blocks with the same output channels that divide the images among them
    """

    channels: int = 16
    warps_c: int = 1
    warps_p: int = 4
    warps_k: int = 2
    x_stages: int = 1
    beside: int = 1

    @property
    def warps(self) -> int:
        """Warps per thread block."""
        return self.warps_c * self.warps_p * self.warps_k


class HeadGeometry:
    """The sizes derived from a head and a tile, as in head.h. work, weights, shared: bytes of shared memory."""

    def __init__(self, head: Head, tile: HeadTile, itemsize: int) -> None:
        self.head, self.tile, self.itemsize = head, tile, itemsize
        step = 32 // itemsize * tile.warps_k
        chunks = ceil_div(head.channels, step) * step * itemsize // 16
        row = 16 * (chunks | 1)
        c_tiles, pairs = tile.channels // 16 // tile.warps_c, ceil_div(ceil_div(head.pixels, 16), tile.warps_p)
        parts = (tile.warps_k - 1) * tile.warps_c * tile.warps_p * c_tiles * pairs * 1024
        self.work = tile.x_stages * head.pixels * row + parts + 4 * tile.warps_p * tile.channels
        self.weights = tile.channels * row
        self.shared = self.work + self.weights
        self.slices = ceil_div(head.outputs, tile.channels)
        self.sums = 8 * c_tiles * pairs  # registers per thread

    def problem(self, shared_memory: int) -> str | None:
        """Why the tile is not possible, in words; None if it is. shared_memory: bytes per thread block of the card."""
        h, t = self.head, self.tile
        e = 16 // self.itemsize
        checks = (
            (h.channels % e == 0, f"channels must be a multiple of {e}, got {h.channels}"),
            (t.channels % (16 * t.warps_c) == 0, f"a tile's channels must be a multiple of {16 * t.warps_c}, got {t}"),
            (t.channels <= 32 * t.warps, f"a tile's channels must be at most {32 * t.warps}, got {t}"),
            (t.warps <= 32, f"a block has at most 32 warps, got {t.warps}"),
            (t.x_stages in (1, 2), f"x_stages must be 1 or 2, got {t.x_stages}"),
            (self.shared <= shared_memory, f"needs {self.shared:,} bytes of shared memory of {shared_memory:,}"),
        )
        return next((text for good, text in checks if not good), None)


def head_shape(name: str, head: Head, tile: HeadTile, dtype: str) -> str:
    """The struct of compile-time constants that the template Head takes."""
    return f"""struct {name} {{  // {head}
    using T = {TYPES[dtype]};
    static constexpr int PIXELS = {head.pixels}, C = {head.channels}, O = {head.outputs}, CHANNELS = {tile.channels};
    static constexpr int WARPS_C = {tile.warps_c}, WARPS_P = {tile.warps_p}, WARPS_K = {tile.warps_k};
    static constexpr int X_STAGES = {tile.x_stages};
}};"""


def head_rule(head: Head, batch: int, itemsize: int, multiprocessors: int, shared_memory: int) -> HeadTile:
    """A tile for a head: narrow slices of output channels for small batches, wide and persistent ones for large."""
    p = min(2, ceil_div(head.pixels, 16))
    if batch * ceil_div(head.outputs, 16) <= 2 * multiprocessors:
        # each thread block reads an entire image in any case; halves: a second warp along the outputs was faster
        if itemsize == 2 and batch == 1 and head.outputs % 32 == 0:
            return HeadTile(32, 2, p, 4 // p, 1, batch)
        return HeadTile(16, 1, p, 8 // p, 1, batch)
    for channels, c, stages in ((128, 4, 2), (64, 4, 2), (64, 4, 1), (32, 2, 1), (16, 1, 1)):
        tile = HeadTile(channels, c, p, 1, stages)
        if HeadGeometry(head, tile, itemsize).problem(shared_memory) is None:
            beside = multiprocessors // HeadGeometry(head, tile, itemsize).slices
            return HeadTile(channels, c, p, 1, stages, max(1, min(beside, batch)))
    return HeadTile(16, 1, p, 1)


def head_source(head: Head, tile: HeadTile, dtype: str) -> str:
    """The source of the kernel pointwise_pool for a head, a tile and a dtype, "float32" or "float16"."""
    t, (low, high) = TYPES[dtype], map(literal, head.bounds)
    return f"""// requires: sm_80
#include "head.h"

{head_shape("Shape", head, tile, dtype)}

extern "C" __global__ void __launch_bounds__({32 * tile.warps})
pointwise_pool(const {t}* __restrict__ x, const {t}* __restrict__ weight, const {t}* __restrict__ bias,
    {t}* __restrict__ y, int N) {{
    extern __shared__ uint4 shared[];
    const HeadWeights<Shape::T> w = {{weight, bias, {low}, {high}}};
    Head<Shape> head(shared, (char*)shared + Head<Shape>::WORK);
    Walk slices, images;
    head.place(blockIdx.x, gridDim.x, N, slices, images);
    head.prefetch(w, slices.first);
    wait_for_inputs();    // until here nothing depends on the kernel before
    head.run(x, w, y, N, slices, images, [] {{ launch_dependents(); }});  // the linear layer fetches its weights
}}
"""


@cuda.operator
def pointwise_pool(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: Any = None,
    out: Any = None,
    tile: HeadTile | Mapping[str, int] | None = None,
    programmatic: bool = False,
) -> Any:
    """out = the mean over height and width of activation(weight · x + bias), in one kernel. Requires sm_80.

    x: (N, C, H, W), NHWC. weight: (O, C, 1, 1). bias: (O,) or None. out: (N, O, 1, 1). float32 (each product as three
    TF32 products, fp32 accuracy) or float16, accumulated in float32. C must be a multiple of 16 bytes.
    activation: None, "relu", "relu6" or (low, high). programmatic: as in inverted_residual. tile: default: head_rule;
    or one of pooled_tiles, for float16 on sm_90.
    Returns out. ValueError and TypeError name the argument that does not fit.
    """
    n, c, h, w = checks.array("x", x, (None,) * 4, allowed=("NHWC",)).shape
    o = checks.array("weight", weight, (None, c, 1, 1), like=x).shape[0]
    if bias is not None:
        checks.array("bias", bias, (o,), like=x)
    low, high = map(float, checks.bounds(activation))
    out = checks.output(out, (n, o, 1, 1), like=x)
    checks.apart(out, x=x, weight=weight, bias=bias)
    head, dtype = Head(h * w, c, o, (low, high)), np.dtype(x.dtype).name
    if isinstance(tile, Mapping):
        return _persistent_pool(x, weight, bias, out, head, tile)
    tile = tile or head_rule(head, n, x.dtype.itemsize, cuda.multiprocessors(), cuda.shared_memory())
    geometry = HeadGeometry(head, tile, x.dtype.itemsize)
    if problem := geometry.problem(cuda.shared_memory()):
        raise ValueError(f"pointwise_pool {head}: {problem}")
    build = functools.partial(compiled, head_source(head, tile, dtype), "pointwise_pool")
    kernel = prepared(f"pointwise_pool/{tile.channels}_channels", build, programmatic)
    cuda.allow_shared(kernel, geometry.shared)
    arrays = (*(array if array is None else layouts.as_stored(array) for array in (x, weight, bias)), out)
    kernel((geometry.slices * min(tile.beside, n),), (32 * tile.warps,), (*arrays, n), shared_mem=geometry.shared)
    return out


def pooled_tiles(head: Head, batch: int, count: int | None = None) -> list[dict[str, int]]:
    """Tiles with which rung 8 of pointwise computes a head and its pool, for `batch` images; see kernels/pointwise.

    Empty if the channels or outputs are no multiples of 8, or an image has too many pixels.
    """
    if head.channels % 8 or head.outputs % 8:
        return []
    return persistent.candidates(batch * head.pixels, head.channels, head.outputs, count, pooled=head.pixels)


def _persistent_pool(x: Any, weight: Any, bias: Any, out: Any, head: Head, tile: Mapping[str, int]) -> Any:
    """pointwise_pool by rung 8 of pointwise, whose tiles here are images."""
    n, c, h, w = x.shape
    ladder.choose("persistent", x.dtype, "NHWC")
    shape = n * h * w, c, head.outputs, head.pixels
    if problem := persistent.problem(tile, *shape):
        raise ValueError(f"tile: {problem}")
    rows = vectors.vector_width(
        *(one for one in (x, weight, bias, out) if one is not None), row=math.gcd(c, head.outputs)
    )
    if rows < 8:
        raise ValueError(f"pointwise_pool {head}: rows of x, weight and out must begin at multiples of 16 bytes")
    size = persistent.size(tile, *shape)
    kernel = ladder.kernel("persistent", x.dtype, **tile, DEPTH=ceil_div(c, 16), POOL=1)
    cuda.allow_shared(kernel, size.shared)
    first, second = (layouts.as_stored(array).reshape(-1, c) for array in (x, weight))
    maps = persistent.tensor_maps(tile, first, second)
    args = (*maps, bias, None, layouts.as_stored(out), n, c, head.outputs, head.pixels, *map(np.float32, head.bounds))
    kernel((size.blocks,), (size.threads,), args, shared_mem=size.shared)
    return out


# ---- Linear


@dataclass(frozen=True)
class Linear:
    """The shape of a linear layer: out = weight · x + bias, weight (outputs, inputs)."""

    inputs: int
    outputs: int

    def __str__(self) -> str:
        return f"linear {self.inputs}>{self.outputs}"


@dataclass(frozen=True)
class LinearTile:
    """The tiling of a linear layer. rows: outputs per warp; warps: per thread block."""

    rows: int = 1
    warps: int = 8


class LinearGeometry:
    """The sizes derived from a linear layer and a tile, as in head.h. work, weights, shared: bytes of shared memory."""

    def __init__(self, linear: Linear, tile: LinearTile, itemsize: int) -> None:
        self.linear, self.tile, self.itemsize = linear, tile, itemsize
        self.work = 0
        self.weights = self.shared = tile.warps * tile.rows * linear.inputs * itemsize
        self.groups = ceil_div(linear.outputs, tile.warps * tile.rows)

    def problem(self, shared_memory: int) -> str | None:
        """Why the tile is not possible, in words; None if it is. shared_memory: bytes per thread block of the card."""
        e = 16 // self.itemsize
        if self.linear.inputs % e:
            return f"K must be a multiple of {e}, got {self.linear.inputs}"
        if self.shared > shared_memory:
            return f"needs {self.shared:,} bytes of shared memory, there are {shared_memory:,}"
        if not 1 <= self.tile.rows <= 32:
            return f"rows must be from 1 to 32, got {self.tile.rows}"
        return None


def linear_shape(name: str, linear: Linear, tile: LinearTile, dtype: str) -> str:
    """The struct of compile-time constants that the template Linear takes."""
    return f"""struct {name} {{  // {linear}
    using T = {TYPES[dtype]};
    static constexpr int K = {linear.inputs}, O = {linear.outputs}, ROWS = {tile.rows}, WARPS = {tile.warps};
}};"""


def linear_rule(linear: Linear, itemsize: int, multiprocessors: int, shared_memory: int, warps: int = 8) -> LinearTile:
    """A tile for a linear layer: the fewest rows per warp, at most 8, with which one wave of thread blocks suffices."""
    rows = max(1, min(8, ceil_div(linear.outputs, warps * multiprocessors)))
    while rows > 1 and warps * rows * linear.inputs * itemsize > shared_memory:
        rows -= 1
    return LinearTile(rows, warps)


def linear_source(linear: Linear, tile: LinearTile, dtype: str) -> str:
    """The source of the kernel few_rows for a linear layer, a tile and a dtype, "float32" or "float16"."""
    t = TYPES[dtype]
    return f"""// requires: sm_80
#include "head.h"

{linear_shape("Shape", linear, tile, dtype)}

extern "C" __global__ void __launch_bounds__({32 * tile.warps})
few_rows(const {t}* __restrict__ x, const {t}* __restrict__ weight, const {t}* __restrict__ bias,
    {t}* __restrict__ y, int N) {{
    extern __shared__ uint4 shared[];
    const HeadWeights<Shape::T> w = {{weight, bias, 0.0f, 0.0f}};
    Linear<Shape> linear(shared);
    linear.prefetch(w, blockIdx.x);
    wait_for_inputs();    // until here nothing depends on the kernel before
    linear.run(x, w, y, N, blockIdx.x, gridDim.x);
}}
"""


MOST_ROWS = 4  # images of a kernel without tensor cores; for more, in float32, a tiled matrix product is faster


def most_rows(dtype: Any) -> int:
    """The most images that few_rows takes in a dtype."""
    return on_tensor_cores.MOST_ROWS[2] if np.dtype(dtype) == np.float16 else MOST_ROWS


@cuda.operator
def few_rows(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    out: Any = None,
    tile: LinearTile | None = None,
    programmatic: bool = False,
) -> Any:
    """out = x · weightᵀ + bias for few rows of x, as torch.nn.functional.linear. Requires sm_80.

    x: (N, K), N at most MOST_ROWS; of float16 at most few_rows.MOST_ROWS[2], on tensor cores if more than MOST_ROWS.
    weight: (O, K), K a multiple of 16 bytes. bias: (O,) or None. out: (N, O). float32 or float16, accumulated in
    float32. programmatic: as in inverted_residual. tile: of the kernel without tensor cores; default: linear_rule.
    Returns out. ValueError and TypeError name the argument that does not fit.
    """
    n, k = checks.array("x", x, (None, None)).shape
    if n > most_rows(x.dtype):
        raise ValueError(f"x must have at most {most_rows(x.dtype)} rows, got {n}; kernels.linear takes more")
    o = checks.array("weight", weight, (None, k), like=x).shape[0]
    if bias is not None:
        checks.array("bias", bias, (o,), like=x)
    out = checks.output(out, (n, o), like=x)
    checks.apart(out, x=x, weight=weight, bias=bias)
    linear, dtype = Linear(k, o), np.dtype(x.dtype).name
    if n > MOST_ROWS:
        if tile is not None:
            raise ValueError(f"tile is for at most {MOST_ROWS} rows of x, got {n}")
        on_tensor_cores.launch(x, weight, bias, None, out, programmatic)
        return out
    tile = tile or linear_rule(linear, x.dtype.itemsize, cuda.multiprocessors(), cuda.shared_memory())
    geometry = LinearGeometry(linear, tile, x.dtype.itemsize)
    if problem := geometry.problem(cuda.shared_memory()):
        raise ValueError(f"few_rows {linear}: {problem}")
    build = functools.partial(compiled, linear_source(linear, tile, dtype), "few_rows")
    kernel = prepared(f"few_rows/{tile.rows}_rows", build, programmatic)
    cuda.allow_shared(kernel, geometry.shared)
    kernel((geometry.groups,), (32 * tile.warps,), (x, weight, bias, out, n), shared_mem=geometry.shared)
    return out
