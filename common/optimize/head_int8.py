"""The end of a quantized network: a 1×1 convolution and the mean over its pixels as one launch, and the linear layer.

pointwise_pool_int8 is head_int8.cu, few_rows_int8 is few_rows.cu.
"""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import checks
from ..cuda import layout as layouts
from ..kernels import int8_arguments as arguments
from ..kernels import vectors
from ..kernels.int8 import HIGH, LOW
from ..kernels.ladder import header_options, prepared
from . import few_rows
from .blocks_int8 import Int8Convolution
from .generate import architecture, ceil_div

KERNEL = "head_int8"
UNIT = 8  # input channels are a multiple of it
WEIGHTS, PIXELS = 96, 8  # most registers of a thread for weights; most tiles of 8 pixels of a warp


@dataclass(frozen=True)
class Int8HeadTile:
    """The tiling of a head, see head_int8.cu.

    m                   tiles of 16 output channels of a warp
    warps_c, warps_p    warps along output channels and along pixels
    beside              thread blocks with the same output channels, which divide the images among them
    """

    m: int = 2
    warps_c: int = 4
    warps_p: int = 1
    beside: int = 1

    @property
    def channels(self) -> int:
        """Output channels of a thread block."""
        return 16 * self.m * self.warps_c

    def slices(self, outputs: int) -> int:
        """Thread blocks that an image takes."""
        return ceil_div(outputs, self.channels)

    def shared(self, pixels: int, channels: int) -> int:
        """Bytes of shared memory of a thread block."""
        row = ceil_div(channels, 32) * 32 | 16
        return (self.channels + 2 * pixels) * row + (4 * self.warps_p * self.channels if self.warps_p > 1 else 0)


def head_tile(pixels: int, channels: int, outputs: int, batch: int) -> Int8HeadTile | None:
    """The tile for a head and a batch size; None if the kernel does not take it.

    Few images: narrow blocks whose warps share the pixels, to begin everywhere at once. Many: blocks of 128 outputs,
    two on a multiprocessor or one, which keep their weights and walk over images.
    """
    steps, tiles, processors = ceil_div(channels, 32), ceil_div(pixels, 8), cuda.multiprocessors()
    m = min(2, WEIGHTS // (4 * steps))
    if m < 1 or channels % UNIT:
        return None
    if batch * ceil_div(outputs, 16 * m) <= 3 * processors:
        m = 1 if batch * ceil_div(outputs, 16) <= 2 * processors else m
        tile = Int8HeadTile(m, 1, max(min(4, ceil_div(tiles, 2)), ceil_div(tiles, PIXELS)), batch)
    else:
        tile = Int8HeadTile(m, 4, ceil_div(tiles, PIXELS))

        def images(together: int) -> int:
            """Images of a multiprocessor that holds so many blocks, of one slice of channels each."""
            return together * ceil_div(batch, max(1, together * processors // tile.slices(outputs)))

        together = min(2, 1, key=images)
        beside = min(batch, max(1, together * processors // tile.slices(outputs)))
        tile = Int8HeadTile(m, 4, tile.warps_p, beside)
    fits = tile.warps_c * tile.warps_p <= 8 and tile.shared(pixels, channels) <= cuda.shared_memory()
    return tile if fits else None


@cuda.operator
def pointwise_pool_int8(
    x: Any,
    convolution: Int8Convolution,
    pool_multiplier: float,
    *,
    pool_zero_point: int = 0,
    code_zero_point: int | None = None,
    out: Any = None,
    tile: Int8HeadTile | None = None,
    programmatic: bool = False,
    one_step: Any = None,
) -> Any:
    """out = kernels.global_avg_pool_int8(kernels.pointwise_int8(x, …)), bit for bit, as one kernel. Requires sm_80.

    x: (N, C, H, W) int8, NHWC; C a multiple of 8. convolution: 1×1, (O, C, 1, 1). pool_multiplier: scale of its output
    / scale of out; pool_zero_point: of out, (N, O, 1, 1) int8; code_zero_point: of the codes in the mean, by default
    that of the convolution. tile: default: head_tile. programmatic: as in inverted_residual. one_step: as of
    kernels.pointwise_int8, for the convolution.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape, layout or option is
    invalid, or if no tile fits.
    """
    n, c, h, w = arguments.nhwc("x", x, (None,) * 4).shape
    weight = checks.array("weight", convolution.weight, (None, c, 1, 1), dtypes=arguments.INT8)
    o = weight.shape[0]
    end = arguments.Epilogue(
        o, c, convolution.bias, convolution.multiplier, convolution.zero_point, convolution.bounds, (n, o, h, w), None,
        None, one_step=one_step,
    )  # fmt: skip
    factor = arguments.scale("pool_multiplier", pool_multiplier) / np.float32(h * w)
    zero = arguments.int8_number("pool_zero_point", pool_zero_point)
    of_codes = end.zero_point if code_zero_point is None else arguments.int8_number("code_zero_point", code_zero_point)
    out = arguments.output(out, (n, o, 1, 1), x)
    checks.apart(out, x=x, weight=weight)
    tile = tile or head_tile(h * w, c, o, n)
    if tile is None or c % UNIT or tile.shared(h * w, c) > cuda.shared_memory():
        raise ValueError(f"{KERNEL}: no tile for {h * w} pixels of {c} > {o} channels")
    if any(vectors.address(a) % vectors.WIDEST for a in (x, weight)):
        raise ValueError(f"{KERNEL}: x and weight must begin at multiples of {vectors.WIDEST} bytes")
    small = int(convolution.small and tuple(convolution.bounds) == (LOW, HIGH))
    build = functools.partial(_compiled, head_options(tile, h * w, c, o, small, end.in_one_step), cuda.backend())
    kernel = prepared(f"{KERNEL}/{tile.channels}_channels", build, programmatic)
    shared = tile.shared(h * w, c)
    cuda.allow_shared(kernel, shared)
    arrays = (layouts.as_stored(x), layouts.as_stored(weight), *end.constants(end.in_one_step), layouts.as_stored(out))
    numbers = (n, *end.numbers[:3], -h * w * of_codes, factor, zero)
    grid, threads = tile.slices(o) * min(tile.beside, n), 32 * tile.warps_c * tile.warps_p
    kernel((grid,), (threads,), (*arrays, *numbers), shared_mem=shared)
    return out


def head_options(
    tile: Int8HeadTile, pixels: int, c: int, o: int, small_sums: int = 0, one_step: bool = False
) -> tuple[str, ...]:
    """The compiler's options for a tile of head_int8.cu and a convolution of c > o channels."""
    sizes = asdict(tile) | {"pixels": pixels, "c": c, "o": o, "small_sums": small_sums, "one_step": int(one_step)}
    del sizes["beside"]
    return (*header_options(), *(f"-D{name.upper()}={value}" for name, value in sizes.items()))


@cuda.operator
def few_rows_int8(
    x: Any, weight: Any, bias: Any, multiplier: Any, *, out: Any = None, programmatic: bool = False
) -> Any:
    """out = kernels.linear_int8(x, weight, bias, multiplier, to_float=True), bit for bit, for few rows of x.

    x: (N, K) int8, N at most few_rows.MOST_ROWS[1], K a multiple of 16; weight: (O, K) int8; bias: (O,) int32 or None;
    multiplier: (O,) float32; out: (N, O) float32. programmatic: as in inverted_residual. Requires sm_80.
    Raises TypeError if an argument is not an array or has a wrong dtype; ValueError if a shape does not fit.
    """
    n, k = checks.array("x", x, (None, None), dtypes=arguments.INT8).shape
    o = checks.array("weight", weight, (None, k), dtypes=arguments.INT8).shape[0]
    end = arguments.Epilogue(o, k, bias, multiplier, 0, (LOW, HIGH), (n, o), None, None)
    out = cuda.empty((n, o), np.float32) if out is None else out
    checks.array("out", out, (n, o), dtypes=arguments.FLOAT32)
    checks.apart(out, x=x, weight=weight, bias=bias, multiplier=multiplier)
    if n > (most := few_rows.MOST_ROWS[1]):
        raise ValueError(f"x must have at most {most} rows, got {n}; kernels.linear_int8 takes more")
    few_rows.launch(x, weight, end.bias, end.multiplier, out, programmatic)
    return out


def job(given: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """(source, options) of the kernel, for cubin.build_all. given: the options, without a card's."""
    return Path(__file__).with_name(f"{KERNEL}.cu").read_text(encoding="utf-8"), (*given, *architecture())


@functools.lru_cache(maxsize=64)
def _compiled(given: tuple[str, ...], backend: str) -> Any:
    source, options = job(given)
    return cuda.RawKernel(source, KERNEL, options=options)
