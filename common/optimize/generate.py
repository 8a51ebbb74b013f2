"""Generates the source of a kernel for one shape, with every size a constant: loops unroll, divisions are removed.

block = Block(height=14, width=14, channels=64, hidden=384, outputs=64, stride=1)
tile = Tile(tile_h=14, tile_w=14)
source(block, tile, "float16")            CUDA C++ that includes fused/block.h, or for a tile with warpgroups
                                          fused/warpgroups.h, of single warps fused/alone.h or alone_pairs.h, and
                                          defines the sizes
Geometry(block, tile, 2).shared           bytes of shared memory, computed as in the header
"""

import functools
import hashlib
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import cuda
from ..cuda.checks import blocks as ceil_div
from ..kernels.ladder import header_options

FOLDER = Path(__file__).parent
KERNEL = "inverted_residual"
TYPES = {"float32": "float", "float16": "__half"}
ARITHMETICS = {"tf32x3": "Tf32x3", "halves": "PairOfHalves"}  # of float32: the structs of fused/arithmetic.h
INDENT, WIDTH = 4 * " ", 120  # of generated source
NEXT = f"\n{2 * INDENT}"  # what goes on in the next line
MAILBOX = 16  # bytes of shared memory for the mailbox of a cluster's sums
MEASURED = 8  # pairs of a stem's pixels that a thread holds at most, six registers each
EXPANSIONS = ("none", "pointwise", "stem")  # the enum Expand of the header


@dataclass(frozen=True)
class Block:
    """The shape of an inverted-residual block, for any batch size.

    height, width               of the hidden tensor before the depthwise convolution
    channels, hidden, outputs   channels of the input, of the hidden tensor and of the output
    stride                      of the depthwise convolution, 1 or 2
    expand                      "pointwise", a 1×1 convolution; "stem", a 3×3 convolution of stride 2 on the 3 channels
                                of an image, `image` = (height, width); "none", the input is the hidden tensor
    bounds                      the (low, high) that expand, depthwise and project are clamped to
    residual                    whether a tensor of the output's shape is added
    """

    height: int
    width: int
    channels: int
    hidden: int
    outputs: int
    stride: int = 1
    expand: str = "pointwise"
    image: tuple[int, int] = (0, 0)
    bounds: tuple[tuple[float, float], ...] = ((0.0, 6.0), (0.0, 6.0), (-math.inf, math.inf))
    residual: bool = False

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return (self.height - 1) // self.stride + 1, (self.width - 1) // self.stride + 1

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of the input."""
        return (self.channels, *(self.image if self.expand == "stem" else (self.height, self.width)))

    @property
    def adds_input(self) -> bool:
        """Whether the residual can be x, which is in shared memory already. In MobileNetV2 it always is."""
        return self.residual and self.expand == "pointwise" and self.stride == 1 and self.channels == self.outputs

    @property
    def macs(self) -> int:
        """Multiply-accumulates per image, without recomputed halos."""
        taps = {"none": 0, "pointwise": self.channels, "stem": 9 * self.channels}[self.expand]
        pixels = math.prod(self.out_size)
        return self.height * self.width * self.hidden * taps + pixels * self.hidden * (9 + self.outputs)

    def bytes(self, batch: int, itemsize: int) -> int:
        """Least bytes of global memory traffic: input, output, parameters, each once. itemsize: bytes per element."""
        taps = {"none": 0, "pointwise": self.channels + 1, "stem": 9 * self.channels + 1}[self.expand]
        inputs, outputs = math.prod(self.input_shape), self.outputs * math.prod(self.out_size)
        parameters = self.hidden * (taps + 10 + self.outputs) + self.outputs
        return itemsize * (batch * (inputs + outputs) + parameters)

    def __str__(self) -> str:
        kind = {"pointwise": "", "none": "no expand, ", "stem": "stem, "}[self.expand]
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        added = " +residual" if self.residual else ""
        return f"{kind}{self.height}×{self.width} {self.channels}>{self.hidden}>{self.outputs}{stride}{added}"


@dataclass(frozen=True)
class Tile:
    """The tiling of a block. The best one depends on the card and the batch size: see cost.py and tiles.py.

    tile_h, tile_w   output pixels per image of a thread block
    images           images per thread block
    slice            hidden channels processed at a time: a multiple of 16 · warps / pixel_warps
    split            thread blocks of a cluster that split the hidden channels; 1: no cluster
    strip            output rows per lane of the depthwise convolution
    vector           adjacent channels per lane of the depthwise convolution; 0: on tensor cores, fp16 only
    chained          whether expand's results go to the depthwise convolution in registers and not through shared
                     memory, for blocks whose expand is clamped below at 0, and at stride 2 a pointwise one. Of 16
                     hidden pixels a warp makes 14 outputs at stride 1, 7 at stride 2; in float16 at stride 2, expand
                     computes 1.5 times as many pixels. float16 needs vector 0; float32 leaves vector aside
    stages           slices of weights in shared memory
    warps            warps per thread block
    pixel_warps      of these, warps that share the pixels of the same hidden channels
    expand_m         tiles of 16 pixels that a warp expands at a time
    project_n        warps along the output channels of the projection
    blocks           resident thread blocks per multiprocessor to compile for (__launch_bounds__)
    persistent       thread blocks per multiprocessor that loop over all tiles; 0: one thread block per tile
    arithmetic       of float32: "tf32x3", a product as three of TF32 numbers, or "halves", as three of halves, for
                     inputs with a bound, and for a stem, which measures its own; float16 has one arithmetic and leaves
                     this aside
    alone            fused/alone.h, or for float32 with "halves" fused/alone_pairs.h: a warp computes an item,
                     strip × 14 outputs, by itself, of a pointwise expand that is clamped below at 0, in float16 also
                     of MobileNetV2's stem. tile_h is strip, tile_w 14, slice 16;
                     pixel_warps: items of a thread block at a time, whose hidden channels warps / pixel_warps warps
                     share; stages: buffers for an item's x, 1 or 2; vector, expand_m and project_n are left aside; a
                     residual is x; `blocks` thread blocks per multiprocessor loop over all items
    streams          of `alone` in float16: a warp has 16 hidden channels' weights in shared memory and asks for the
                     next ones while it computes; else a thread block has all of them
    rows             fused/rows.h, in float16 on a card from sm_90 on: a cluster of `split` takes tile_h whole rows of
                     outputs, of `images` images side by side, 1 or 2, at most 14 columns; of a pointwise expand that is
                     clamped below at 0. slice: hidden channels of a thread block at a time; strip: rows that a warp
                     projects at a time; stages: slices of weights in shared memory; vector, pixel_warps, expand_m and
                     project_n are left aside; a residual is x; thread blocks loop over all tiles
    early            whether the next kernel may begin, and fetch its weights, before this one waits for the one before
                     it, and not only when it has asked for its x; for kernels launched with programmatic=True
    warpgroups       2 or 4: fused/warpgroups.h, where so many groups of four warps multiply with wgmma, in float16 on a
                     card of sm_90; 0: fused/block.h. With warpgroups tile_w is the whole width, slice 64, warps
                     4 · warpgroups; several images may be split; vector, stages, pixel_warps, expand_m, project_n and
                     blocks are left aside; a residual is x; thread blocks loop over all tiles unless they are split
    """

    tile_h: int
    tile_w: int
    images: int = 1
    slice: int = 64
    split: int = 1
    strip: int = 1
    vector: int = 2
    stages: int = 2
    warps: int = 4
    pixel_warps: int = 1
    expand_m: int = 1
    project_n: int = 1
    blocks: int = 1
    persistent: int = 0
    arithmetic: str = "tf32x3"
    chained: bool = False
    warpgroups: int = 0
    alone: bool = False
    streams: bool = False
    rows: bool = False
    early: bool = False

    @property
    def kind(self) -> str:
        """What kernels are for this tile, in words: "single warps", "tiles of rows", "warpgroups"; "" for block.h."""
        return (
            "single warps" if self.alone else "tiles of rows" if self.rows else "warpgroups" if self.warpgroups else ""
        )

    @property
    def orders_weights(self) -> bool:
        """Whether the host puts the weights in the order in which lanes read them, see fragments.py."""
        return self.alone or self.rows


def arithmetic(tile: Tile, dtype: str) -> str:
    """The struct of fused/arithmetic.h for a tile and a dtype."""
    return "Fp16" if dtype == "float16" else ARITHMETICS[tile.arithmetic]


# ---- Tiles with warpgroups

WARPGROUP_SLICE = 64  # hidden channels of a slice, and channels of a row of 128 bytes
WARPGROUPS = (2, 4)  # warpgroups of a thread block
WGMMA_WIDTHS = (16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 240, 256)  # of a wgmma in include/wgmma.h
WARPGROUP_PIXELS = 256  # of a tile, in and out: rows of a bulk copy, and of four warpgroups
WARPGROUP_SHARED = 227 * 1024  # bytes: MOST of fused/warpgroups.h
WGMMA_ALIGNED = 1024  # bytes: tiles of wgmma begin at multiples of them
_SPARE, _BARRIERS = 8, 40  # halves: of a thread, and of a thread block
TAPS_WAVEFRONTS = 42  # of an item: taps and biases


def _warpgroups_below(pixels: int) -> int:
    """Warpgroups one below the other along the pixels, 64 each."""
    return 1 if pixels <= 64 else 2 if pixels <= 128 else 4


class WarpgroupSizes:
    """The struct of fused/warpgroups.h. shared: bytes of a thread block; width: outputs of a warpgroup, N of its wgmma.

    below, below_out: warpgroups along the pixels of x, and along those of y. items: parts of the depthwise convolution
    that a warp takes, of `strip` rows. box: rows of a bulk copy of project.
    """

    def __init__(self, block: Block, tile: Tile) -> None:
        self.block, self.tile = block, tile
        h, c, stride, groups = block.height, block.channels, block.stride, tile.warpgroups
        out_h, out_w = block.out_size
        self.tiles_h = ceil_div(out_h, tile.tile_h)
        rows_in = (tile.tile_h - 1) * stride + 3
        real_h = h if tile.tile_h == out_h else rows_in
        self.pixels_in, pitch = tile.images * real_h * block.width, ceil_div(out_w, 8) * 8
        self.rows_out = tile.images * tile.tile_h * pitch
        self.slices, self.k_tiles = block.hidden // WARPGROUP_SLICE, ceil_div(c, WARPGROUP_SLICE)
        self.below, self.below_out = _warpgroups_below(self.pixels_in), _warpgroups_below(self.rows_out)
        self.width = block.outputs // max(1, groups // self.below_out)
        strips = ceil_div(tile.tile_h, tile.strip)
        self.items = WARPGROUP_SLICE // 16 * ceil_div(tile.images * strips * (pitch // 8), 2)
        self.box = block.outputs if block.outputs <= WARPGROUP_PIXELS else block.outputs // 2

        # in halves, as in the header
        x, dw = self.k_tiles * ceil_div(self.pixels_in, 8) * 8 * WARPGROUP_SLICE, self.rows_out * WARPGROUP_SLICE
        w1, w3 = self.k_tiles * WARPGROUP_SLICE * WARPGROUP_SLICE, block.outputs * WARPGROUP_SLICE
        hidden = (tile.images * rows_in * (block.width + 2) + (pitch - out_w) * stride) * WARPGROUP_SLICE
        taps_and_biases = 2 * 9 * WARPGROUP_SLICE + 4 * WARPGROUP_SLICE + block.outputs
        spare = x + 2 * (w1 + w3 + dw + hidden) + taps_and_biases
        before_sums = 2 * (spare + _SPARE * 32 * tile.warps + _BARRIERS)
        part = ceil_div(self.width // 8, tile.split)
        sums = tile.split * part * 32 * tile.warps * 16 if tile.split > 1 else 0
        self.over = before_sums + sums > WARPGROUP_SHARED  # sums are sent where everything else was
        self.fits_over = sums <= 2 * spare
        self.shared = ceil_div(before_sums + (0 if self.over else sums), WGMMA_ALIGNED) * WGMMA_ALIGNED

    @property
    def wavefronts(self) -> float:
        """Of shared memory, 128 bytes each, for a slice of a tile."""
        block, tile, groups = self.block, self.tile, self.tile.warpgroups
        steps, rows = block.channels // 16, (tile.strip - 1) * block.stride + 3
        expand = groups * steps * (16 + WARPGROUP_SLICE // (groups // self.below) / 4)
        project = groups * WARPGROUP_SLICE // 16 * (16 + self.width / 4)
        copied = (self.k_tiles * WARPGROUP_SLICE + block.outputs + 9) * WARPGROUP_SLICE * 2 / 128
        stored = 4 * groups * WARPGROUP_SLICE // (groups // self.below) // 16 * 4 + 4 * self.items * tile.strip
        return expand + project + copied + stored + self.items * (12 * rows + TAPS_WAVEFRONTS)

    def problems(self) -> Iterator[str]:
        """Why the tile is not possible but for shared memory, in words."""
        b, t = self.block, self.tile
        if cuda.backend() == "gpu" and cuda.compute_capability() != 90:
            yield f"warpgroups need a card of sm_90, this one is sm_{cuda.compute_capability()}"
        if t.warpgroups not in WARPGROUPS:
            yield f"warpgroups must be 0, 2 or 4, got {t.warpgroups}"
        if t.warps != 4 * t.warpgroups:
            yield f"warps must be 4 for each of {t.warpgroups} warpgroups, got {t.warps}"
        if b.expand != "pointwise":
            yield f'warpgroups need a "pointwise" expand, got "{b.expand}"'
        if t.slice != WARPGROUP_SLICE:
            yield f"warpgroups take slices of {WARPGROUP_SLICE} channels, got {t.slice}"
        if b.hidden % WARPGROUP_SLICE:
            yield f"hidden channels must be a multiple of {WARPGROUP_SLICE} for warpgroups, got {b.hidden}"
        if b.channels % 16:
            yield f"channels must be a multiple of 16 for warpgroups, got {b.channels}"
        if b.stride not in (1, 2):
            yield f"stride must be 1 or 2, got {b.stride}"
        if b.residual and not b.adds_input:
            yield "warpgroups add no residual but x"
        if t.chained or t.persistent:
            yield "tiles with warpgroups are neither chained nor persistent"
        if t.tile_w != b.out_size[1]:
            yield f"tile_w must be the whole width, {b.out_size[1]}, for warpgroups, got {t.tile_w}"
        if not 1 <= t.tile_h <= b.out_size[0]:
            yield f"the tile must fit into {b.out_size[0]}×{b.out_size[1]}"
        if t.images > 1 and t.tile_h != b.out_size[0]:
            yield f"several images take the whole height, {b.out_size[0]}, got tile_h {t.tile_h}"
        if not 1 <= t.strip <= t.tile_h:
            yield f"strip must be from 1 to tile_h, {t.tile_h}, got {t.strip}"
        for pixels, words in ((self.pixels_in, "pixels of x"), (self.rows_out, "pixels of y, in rows of 8")):
            if pixels > WARPGROUP_PIXELS:
                yield f"a tile must have at most {WARPGROUP_PIXELS} {words}, for warpgroups, got {pixels}"
            elif _warpgroups_below(pixels) > t.warpgroups:
                yield f"{pixels} {words} need 4 warpgroups, got {t.warpgroups}"
        side = max(1, t.warpgroups // self.below_out)
        if b.outputs % (8 * side) or self.width not in WGMMA_WIDTHS or b.outputs > 512 or self.box % 8:
            yield f"{side} warpgroups side by side need {side} × one of {WGMMA_WIDTHS} output channels, got {b.outputs}"
        if not 1 <= t.split <= 8:
            yield f"split must be from 1 to 8, the blocks of a cluster, got {t.split}"
        elif (t.split - 1) * ceil_div(self.slices, t.split) >= self.slices:
            yield f"split must leave a slice of {self.slices} to each block, got {t.split}"
        if self.over and not self.fits_over:
            yield "the sums of a cluster must fit where everything else was"


# ---- Tiles of single warps

ALONE_COLUMNS = 14  # outputs of a row
ALONE_SUMS = 112  # registers of a lane for the sums of its outputs, at most
_STEM_HIDDEN, _STEM_OUTPUTS, _STEM_ROWS = 32, 16, 6  # of a stem: its channels, and rows that are unrolled
_STEM_WARP = 4 * (8 * 132 + 128 + 4)  # bytes of a stem's warp: 8 pairs of rows, an output row, constants
ALONE_BUFFERS = (1, 2)  # of a warp's x


def alone_steps(block: Block) -> int:
    """Products of 16 channels of expand, the last one of 8 perhaps."""
    return 2 if block.expand == "stem" else ceil_div(block.channels, 16)


def alone_words(block: Block) -> int:
    """Words of a lane for 16 hidden channels: WORDS of the header."""
    biases = 8 if block.expand == "stem" else 16
    return ceil_div(4 * alone_steps(block) + 24 + biases + 2 * (block.outputs // 8), 4) * 4


def alone_plane(block: Block) -> int:
    """Words of 16 hidden channels whose weights stream: PLANE of the header."""
    return ceil_div(4 * alone_steps(block) + 2 * (block.outputs // 8), 4) * 128 + 128


def alone_size(block: Block, itemsize: int = 2, streams: bool = False) -> int:
    """Words of all hidden channels, and of project's bias: ALL_WORDS of alone.h, 4 · ALL of alone_pairs.h."""
    of_plane = alone_plane(block) if streams else 32 * alone_words(block)
    if itemsize == 4:  # a lane's fragments of both products; of four lanes 9 taps and 2 biases of four channels
        of_plane = 4 * (32 * (2 * alone_steps(block) + block.outputs // 8) + 4 * 11)
    return block.hidden // 16 * of_plane + ceil_div(block.outputs, 4) * 4


class AloneSizes:
    """The sizes of a tile of single warps. rows: of hidden pixels; items: of an image; shared: bytes of a thread block.

    sums: registers of a lane for the outputs of an item. parts: warps that share an item's hidden channels.
    """

    def __init__(self, block: Block, tile: Tile, itemsize: int) -> None:
        self.block, self.tile, self.itemsize, stride = block, tile, itemsize, block.stride
        out_h, out_w = block.out_size
        self.stem = block.expand == "stem"
        self.rows = (tile.strip - 1) * stride + 3
        self.items = ceil_div(out_w, ALONE_COLUMNS) * ceil_div(out_h, max(1, tile.strip))
        self.x = 0 if self.stem else self.rows * 16 * stride * block.channels  # elements
        self.sums = 8 if self.stem else tile.strip * block.outputs // 2
        self.parts = tile.warps // tile.pixel_warps
        of_item = _STEM_WARP if self.stem else tile.stages * self.x * itemsize
        added = tile.warps * 64 * tile.strip * block.outputs if self.parts > 1 else 0
        weights = alone_size(block, itemsize)
        if tile.streams:  # a plane of each warp
            weights = tile.warps * alone_plane(block) + ceil_div(block.outputs, 4) * 4
        self.shared = 4 * weights + tile.pixel_warps * of_item + added

    def problems(self) -> Iterator[str]:
        """Why the tile is not possible but for shared memory, in words."""
        b, t, stem = self.block, self.tile, self.stem
        if self.itemsize == 4:
            if t.arithmetic != "halves":
                yield f'single warps multiply floats as pairs of halves, arithmetic "halves", got {t.arithmetic!r}'
            if stem:
                yield "a stem of single warps is of float16"
            if t.streams:
                yield "weights stream to single warps in float16 alone"
            if not all(map(math.isfinite, b.bounds[1])):
                yield f'arithmetic "halves" needs a bounded depthwise convolution, got bounds {b.bounds[1]}'
        if b.expand not in ("pointwise", "stem"):
            yield f'single warps need a "pointwise" expand or a "stem", got "{b.expand}"'
        if b.stride not in ((1,) if stem else (1, 2)):
            yield f"stride must be 1{'' if stem else ' or 2'} for single warps, got {b.stride}"
        if b.bounds[0][0] != 0:
            yield f"single warps need an expand that is clamped below at 0, got bounds {b.bounds[0]}"
        if b.hidden % 16:
            yield f"hidden channels must be a multiple of 16 for single warps, got {b.hidden}"
        if not stem and b.channels % 8:
            yield f"channels must be a multiple of 8 for single warps, got {b.channels}"
        if b.outputs % 8:
            yield f"output channels must be a multiple of 8 for single warps, got {b.outputs}"
        if stem and (b.channels, b.hidden, b.outputs) != (3, _STEM_HIDDEN, _STEM_OUTPUTS):
            yield f"a stem of single warps has 3>{_STEM_HIDDEN}>{_STEM_OUTPUTS} channels, got {b}"
        if stem and b.image[1] % 4:
            yield f"the width of a stem's image must be a multiple of 4 for single warps, got {b.image[1]}"
        if b.residual and not b.adds_input:
            yield "single warps add no residual but x"
        if t.chained or t.warpgroups:
            yield "tiles of single warps are neither chained nor have warpgroups"
        if (t.images, t.split, t.slice) != (1, 1, 16):
            yield f"single warps take 1 image, all hidden channels, 16 at a time: got {t}"
        if t.tile_w != ALONE_COLUMNS or t.tile_h != t.strip:
            yield f"single warps take strip × {ALONE_COLUMNS} outputs, got {t.tile_h}×{t.tile_w}, strip {t.strip}"
        if not 1 <= t.strip <= b.out_size[0] + (_STEM_ROWS if stem else 0):
            yield f"strip must be from 1 to {b.out_size[0]} rows, got {t.strip}"
        if not 1 <= t.warps <= 32 or t.warps % t.pixel_warps:
            yield f"pixel_warps must divide at most 32 warps, got {t.pixel_warps} of {t.warps}"
        if self.parts > (1 if stem else b.hidden // 16):
            most = 1 if stem else b.hidden // 16
            yield f"at most {most} single warps can share {b.hidden} hidden channels, got {self.parts}"
        if t.stages not in ALONE_BUFFERS or (stem and t.stages != 1):
            yield f"stages must be 1{'' if stem else ' or 2'} for single warps, got {t.stages}"
        if stem and t.streams:
            yield "a stem's weights do not stream"
        if stem and self.rows % _STEM_ROWS:
            yield f"strip + 2 must be a multiple of {_STEM_ROWS} for a stem of single warps, got strip {t.strip}"
        if self.sums > ALONE_SUMS:
            yield f"strip · outputs / 2 must be at most {ALONE_SUMS} registers, got {self.sums}"
        if self.itemsize == 2 and not stem and self.x < t.strip * 16 * b.outputs:
            yield f"y must fit where x was: {t.strip * 16 * b.outputs} elements into {self.x}"


# ---- Tiles of rows

ROWS_COLUMNS = {1: 14, 2: 7}  # outputs of a row at most, by images side by side
ROWS_EIGHTS = 4  # of hidden channels that a warp takes at a time, at most
ROWS_SUMS = 64  # registers of a lane for the sums of its outputs, at most


class RowsSizes:
    """The sizes of a tile of rows. rows_in: of x; parts: slices of a thread block; shared: bytes of a thread block.

    eights: of a slice's channels; at_a_time: of them, those of a warp. passes: pairs of eight outputs that a warp
    projects one after the other. of_hidden, of_project: 16 bytes of a slice's weights.
    """

    def __init__(self, block: Block, tile: Tile) -> None:
        self.block, self.tile, stride = block, tile, block.stride
        self.rows_in = (tile.tile_h - 1) * stride + 3
        self.parts = max(1, block.hidden // (tile.split * tile.slice))
        self.eights, pairs = tile.slice // 8, block.outputs // 16
        self.at_a_time = max(1, ceil_div(self.eights, tile.warps))
        self.passes = ceil_div(pairs, max(1, tile.warps // max(1, tile.tile_h // tile.strip)))
        self.of_hidden = self.eights * (block.channels // 16 * 16 + 16)
        self.of_project = pairs * (tile.slice // 16) * 32 + block.outputs // 4
        x, dw = self.rows_in * 16 * stride * block.channels // 8, tile.tile_h * self.eights * 16
        letters = (tile.split - 1) * ceil_div(tile.tile_h * pairs, tile.split) * 64
        stages = tile.stages * (self.of_hidden + self.of_project)
        self.shared = 16 * (tile.stages + 1 + x + dw + letters + stages)

    @property
    def words(self) -> int:
        """32-bit words of all weights."""
        return 4 * self.tile.split * self.parts * (self.of_hidden + self.of_project)

    def problems(self) -> Iterator[str]:
        """Why the tile is not possible but for shared memory, in words."""
        b, t = self.block, self.tile
        if cuda.backend() == "gpu" and cuda.compute_capability() < 90:
            yield f"tiles of rows need a card from sm_90 on, this one is sm_{cuda.compute_capability()}"
        if b.expand != "pointwise":
            yield f'tiles of rows need a "pointwise" expand, got "{b.expand}"'
        if b.stride not in (1, 2):
            yield f"stride must be 1 or 2, got {b.stride}"
        if b.bounds[0][0] != 0:
            yield f"tiles of rows need an expand that is clamped below at 0, got bounds {b.bounds[0]}"
        if b.residual and not b.adds_input:
            yield "tiles of rows add no residual but x"
        if t.chained or t.warpgroups or t.alone:
            yield "tiles of rows are neither chained nor of single warps nor have warpgroups"
        if b.channels % 32 or b.outputs % 16:
            yield f"channels must be a multiple of 32 for tiles of rows, outputs of 16, got {b}"
        if t.images not in ROWS_COLUMNS or b.out_size[1] > ROWS_COLUMNS[t.images]:
            yield f"tiles of rows take {ROWS_COLUMNS[1]} columns of an image or {ROWS_COLUMNS[2]} of two, got {t}"
        if t.tile_w != b.out_size[1] or not 1 <= t.tile_h <= b.out_size[0] + 1:
            yield f"tiles of rows take whole rows of {b.out_size[0]}×{b.out_size[1]} outputs, got {t.tile_h}×{t.tile_w}"
        if not 1 <= t.split <= 8:
            yield f"split must be from 1 to 8, the blocks of a cluster, got {t.split}"
        elif t.slice % 16 or b.hidden % (t.split * t.slice):
            yield f"slice must be a multiple of 16, and split · slice divide {b.hidden} hidden channels, got {t.slice}"
        if not 1 <= t.warps <= 32 or self.eights % self.at_a_time or self.at_a_time > ROWS_EIGHTS:
            yield f"warps must take 1 to {ROWS_EIGHTS} eights each of a slice of {t.slice}, got {t.warps} warps"
        if t.tile_h % t.strip or t.warps % (t.tile_h // t.strip):
            yield f"strip must divide tile_h, {t.tile_h}, and the quotient {t.warps} warps, got {t.strip}"
        if 8 * self.passes * t.strip > ROWS_SUMS:
            yield f"a warp must have at most {ROWS_SUMS} sums of outputs, got {8 * self.passes * t.strip}"
        if not 1 <= t.stages <= self.parts:
            yield f"stages must be from 1 to the {self.parts} slices of a thread block, got {t.stages}"


# ---- All tiles


class Geometry:
    """The sizes derived from a block and a tile, as in fused/geometry.h; …_bytes and `shared` in bytes.

    itemsize: bytes per element, 4 or 2. tiles: per group of images. shared: dynamic shared memory of a thread block.
    """

    def __init__(self, block: Block, tile: Tile, itemsize: int) -> None:
        self.block, self.tile, self.itemsize = block, tile, itemsize
        e = 16 // itemsize
        self.slides = tile.chained and (block.stride == 1 or itemsize == 4)  # as fused/sliding.h does it
        self.halves = itemsize == 4 and tile.arithmetic == "halves"  # floats as pairs of halves
        depth = 16 if self.halves else 2 * e  # channels of one mma

        def odd(elements: int) -> int:
            return (elements // e | 1) * e

        self.out_h, self.out_w = block.out_size
        self.tiles = ceil_div(self.out_h, tile.tile_h) * ceil_div(self.out_w, tile.tile_w)  # per group of images
        self.in_h, self.in_w = ((n - 1) * block.stride + 3 for n in (tile.tile_h, tile.tile_w))
        self.real_h = block.height if tile.tile_h == self.out_h and not tile.chained else self.in_h
        self.real_w = block.width if tile.tile_w == self.out_w and not tile.chained else self.in_w
        self.pixels_in = tile.images * self.real_h * self.real_w
        self.pixels_out = tile.images * tile.tile_h * tile.tile_w
        self.k_padded = 48 if block.expand == "stem" else ceil_div(block.channels, depth) * depth
        self.o_padded = ceil_div(block.outputs, 16) * 16
        x_row, d_row = odd(self.k_padded), odd(tile.slice)
        expands = block.expand != "none"
        m_in, unit = ceil_div(self.pixels_in, 16) * 16, e
        x_pixels = self.pixels_in if tile.chained else m_in
        patch_w = 2 * self.real_w + 2
        self.pixel_pairs = (2 * self.real_h + 1) * patch_w // 2  # of the image, that a stem's tile reads
        measures = self.halves and block.expand == "stem"
        more = (self.real_w // 2 - patch_w) % 4 if measures else (self.real_w - patch_w) & 6 if itemsize == 2 else 0
        patch_row = patch_w + more
        patch = (2 * self.real_h + 1) * patch_row * 4 + (ceil_div(tile.warps, e) * e if measures else 0)
        self.x_bytes = {"none": 0, "pointwise": x_pixels * x_row, "stem": patch}[block.expand] * itemsize
        places = tile.images * self.in_h * self.in_w + (m_in - self.pixels_in if expands else 0)
        half_plane = (ceil_div(places - unit // 2, unit) * unit + unit // 2) * 8
        self.hidden_bytes = 0 if tile.chained else tile.slice // 16 * 2 * half_plane * itemsize
        self.dw_bytes = ceil_div(self.pixels_out, 16) * 16 * d_row * itemsize
        self.stage_bytes = ((tile.slice * x_row if expands else 0) + self.o_padded * d_row + 11 * tile.slice) * itemsize
        self.slices = ceil_div(block.hidden, tile.slice * tile.split)
        self.resident = self.slices <= tile.stages
        self.stages = self.slices if self.resident else tile.stages
        tiles = self.x_bytes + (4 * m_in if expands and not tile.chained else 0) + self.hidden_bytes + self.dw_bytes
        columns = tile.images * (tile.tile_h // tile.strip) * tile.tile_w
        tiles += 512 * tile.warps if tile.vector == 0 and (columns % 16 or self.slides) else 0
        work = ceil_div(tiles, 16) * 16
        if tile.split > 1:
            work += tile.split * ceil_div(self.pixels_out * self.o_padded // 4, tile.split) * 16 + MAILBOX
        self.shared = work + self.stages * self.stage_bytes
        m_out = ceil_div(self.pixels_out, 16)
        self.sums = 8 * ceil_div(m_out, max(1, tile.warps // tile.project_n))
        self.sums *= ceil_div(self.o_padded // 16, tile.project_n)  # registers per thread for the sums of y
        self.planes = max(1, tile.slice // 16 // max(1, tile.warps // tile.pixel_warps))
        self.warpgroups = WarpgroupSizes(block, tile) if tile.warpgroups else None
        self.alone = AloneSizes(block, tile, itemsize) if tile.alone else None
        self.rows = RowsSizes(block, tile) if tile.rows else None
        for other in (self.warpgroups, self.alone, self.rows):
            if other is not None:
                self.shared = other.shared

    @property
    def recomputed(self) -> float:
        """Ratio of computed hidden pixels, halos included, to the hidden pixels of the block."""
        computed = self.tiles * self.pixels_in / self.tile.images
        return computed / (self.block.height * self.block.width)

    def grid(self, batch: int, multiprocessors: int) -> int:
        """Number of thread blocks of a launch."""
        tiles = ceil_div(batch, self.tile.images) * self.tiles
        if self.alone is not None:
            tiles = min(ceil_div(tiles, self.tile.pixel_warps), self.tile.blocks * multiprocessors)
        elif self.rows is not None:
            tiles = min(tiles, max(1, multiprocessors // self.tile.split))
        elif self.warpgroups is not None and self.tile.split == 1:
            tiles = min(tiles, multiprocessors)
        elif self.tile.persistent:
            tiles = min(tiles, self.tile.persistent * multiprocessors)
        return tiles * self.tile.split

    def problem(self, shared_memory: int) -> str | None:
        """Why the tile is not possible, in words; None if it is. shared_memory: bytes per thread block of the card."""
        return next(self._problems(shared_memory), None)

    def _problems(self, shared_memory: int) -> Iterator[str]:
        if self.alone is not None:
            yield from self.alone.problems()
        elif self.rows is not None:
            if self.itemsize != 2:
                yield "tiles of rows are of float16"
            yield from self.rows.problems()
        elif self.warpgroups is not None:
            if self.itemsize != 2:
                yield "warpgroups multiply float16 alone"
            yield from self.warpgroups.problems()
        else:
            yield from self._problems_of_warps()
        if self.tile.streams and self.alone is None:
            yield "weights stream to single warps alone"
        if self.shared > shared_memory:
            yield f"needs {self.shared:,} bytes of shared memory, there are {shared_memory:,}"

    def _problems_of_warps(self) -> Iterator[str]:
        b, t = self.block, self.tile
        e = 16 // self.itemsize
        vectors = (0, 2, 4) if self.itemsize == 2 else (2, 4)
        groups = t.warps // t.pixel_warps
        if t.arithmetic not in ARITHMETICS:
            yield f"arithmetic must be {' or '.join(ARITHMETICS)}, got {t.arithmetic!r}"
        if self.halves:
            e = 8  # of a group of pairs
            if b.expand == "stem" and (held := ceil_div(self.pixel_pairs, 32 * t.warps)) > MEASURED:
                yield f'a stem\'s thread must hold at most {MEASURED} pairs of pixels with "halves", got {held}'
            if not all(map(math.isfinite, b.bounds[1])):
                yield f'arithmetic "halves" needs a bounded depthwise convolution, got bounds {b.bounds[1]}'
        if b.hidden % e:
            yield f"hidden channels must be a multiple of {e}, got {b.hidden}"
        if b.expand != "stem" and b.channels % e:
            yield f"channels must be a multiple of {e}, got {b.channels}"
        if b.outputs % 4:
            yield f"output channels must be a multiple of 4, got {b.outputs}"
        if b.stride not in (1, 2):
            yield f"stride must be 1 or 2, got {b.stride}"
        if b.expand == "stem":
            if b.channels != 3:
                yield f"a stem reads 3 channels, got {b.channels}"
            if b.image[1] % 2:
                yield f"a stem's image must be of even width, got {b.image[1]}"
            if t.images != 1:
                yield f"a stem takes one image at a time, got {t.images}"
        if (pixels := hidden_pixels(b, t)) >= 4080:
            yield f"the tile must have fewer than 4,080 hidden pixels, got {pixels}"
        if t.warps % t.pixel_warps:
            yield f"pixel_warps must divide the {t.warps} warps, got {t.pixel_warps}"
        if t.slice % (16 * groups):
            yield f"slice must be a multiple of 16 for each of {groups} warps, got {t.slice}"
        if t.warps % t.project_n:
            yield f"project_n must divide the {t.warps} warps, got {t.project_n}"
        if t.vector not in vectors:
            yield f"vector must be {'0, ' if self.itemsize == 2 else ''}2 or 4, got {t.vector}"
        if t.tile_h % t.strip:
            yield f"strip must divide tile_h, {t.tile_h}, got {t.strip}"
        if t.chained and (b.expand == "none" or b.bounds[0][0] != 0):
            yield "chained needs an expand that is clamped below at 0"
        if t.chained and self.itemsize == 2 and t.vector:
            yield f"chained needs vector 0 in float16, got {t.vector}"
        if t.chained and b.stride == 2 and b.expand != "pointwise":
            yield "chained at stride 2 needs a pointwise expand"
        if t.tile_h > self.out_h or t.tile_w > self.out_w:
            yield f"the tile must fit into {self.out_h}×{self.out_w}"
        if t.split != 1 and t.images != 1:
            yield "split blocks take one image each"
        if not self.resident and t.stages < 2:
            yield "stages must be at least 2"


def hidden_pixels(block: Block, tile: Tile) -> int:
    """Hidden pixels of a tile, halo included."""
    return tile.images * ((tile.tile_h - 1) * block.stride + 3) * ((tile.tile_w - 1) * block.stride + 3)


def literal(value: float) -> str:
    """A float as a CUDA C++ expression; infinities are supported."""
    return f"{'-' if value < 0 else ''}__int_as_float(0x7f800000)" if math.isinf(value) else f"{value!r}f"


def shape(
    name: str, block: Block, tile: Tile, dtype: str, adds_input: bool | None = None, loops: bool = True
) -> str:  # fmt: skip
    """The struct of compile-time constants that the template Fused takes.

    adds_input: as in `source`. loops: whether a thread block may take several tiles, one after the other.
    """
    adds = block.adds_input if adds_input is None else adds_input
    bools = {
        "ADDS_X": adds, "READS_RESIDUAL": block.residual and not adds, "LOOPS": loops, "CHAINED": tile.chained,
    }  # fmt: skip
    flags = ", ".join(f"{name} = {str(value).lower()}" for name, value in bools.items())
    of_block = {
        "H": block.height, "W": block.width, "C": block.channels, "HIDDEN": block.hidden, "O": block.outputs,
        "STRIDE": block.stride, "INPUT_H": block.image[0], "INPUT_W": block.image[1],
    }  # fmt: skip
    of_tile = {
        "TILE_H": tile.tile_h, "TILE_W": tile.tile_w, "IMAGES": tile.images, "SLICE": tile.slice, "SPLIT": tile.split,
        "STRIP": tile.strip, "VECTOR": tile.vector, "STAGES": tile.stages, "THREADS": 32 * tile.warps,
        "WARPS_P": tile.pixel_warps, "MT1": tile.expand_m, "WARPS_N3": tile.project_n,
    }  # fmt: skip
    return f"""struct {name} {{  // {block}
    using Arithmetic = {arithmetic(tile, dtype)};
    using T = Arithmetic::T;
    static constexpr Expand EXPAND = {block.expand.upper()};
    static constexpr bool {flags};
{_constants(of_block)}
{_constants(of_tile)}
}};"""


def _constants(numbers: dict[str, int]) -> str:
    return wrapped([f"{name} = {value}" for name, value in numbers.items()], "static constexpr int ") + ";"


def wrapped(parts: Iterable[str], begin: str = "") -> str:
    """A list of generated source, indented once, in lines of at most WIDTH characters; no part is broken."""
    text = ", ".join(part.replace(" ", "\0") for part in parts)
    lines = textwrap.fill(begin + text, WIDTH - 1, initial_indent=INDENT, subsequent_indent=2 * INDENT)
    return lines.replace("\0", " ")


PARAMETERS = """
    const {T}* __restrict__ x, const {T}* __restrict__ expand, const {T}* __restrict__ expand_bias,
    const {T}* __restrict__ depthwise, const {T}* __restrict__ depthwise_bias,
    const {T}* __restrict__ project, const {T}* __restrict__ project_bias,
    const {T}* __restrict__ residual, {T}* __restrict__ y, int N"""
SCALES = ("x_scale", "x_unscale", "hidden_unscale", "dw_scale", "sums_unscale")  # further parameters, of "halves"


def source(block: Block, tile: Tile, dtype: str, adds_input: bool | None = None) -> str:
    """The source of the kernel inverted_residual for a block, a tile and a dtype, "float32" or "float16".

    adds_input: whether the residual is the input x, so that `residual` is not read; default: block.adds_input.
    With tile.arithmetic "halves" the kernel has the parameters SCALES as well, float, and expand and project are arrays
    as split_weights.py makes them. With tile.warpgroups its parameters are WARPGROUP_PARAMETERS, with tile.alone or
    tile.rows ALONE_PARAMETERS.
    """
    text = _source_of(block, tile, dtype, adds_input)
    if not tile.early:
        return text
    requires, rest = text.split("\n", 1)
    return f"{requires}\n#define LAUNCHES_FIRST 1  // see grid.h\n{rest}"


def _source_of(block: Block, tile: Tile, dtype: str, adds_input: bool | None) -> str:
    if tile.rows:
        return _source_of_rows(block, tile)
    if tile.alone:
        return _source_of_single_warps(block, tile, dtype)
    if tile.warpgroups:
        return _source_of_warpgroups(block, tile)
    scales = SCALES if arithmetic(tile, dtype) == ARITHMETICS["halves"] else ()
    lows, highs = (", ".join(literal(bound[side]) for bound in block.bounds) for side in (0, 1))
    parameters = PARAMETERS.format(T=TYPES[dtype])
    if scales:
        parameters += ",\n" + wrapped(f"float {name}" for name in scales)
    cluster = f"__cluster_dims__({tile.split}, 1, 1) " if tile.split > 1 else ""
    started = "\n    block.open();\n    cluster_started();" if tile.split > 1 else ""
    return f"""// requires: sm_{90 if tile.split > 1 else 80}
#include "fused/block.h"

{shape("Shape", block, tile, dtype, adds_input, tile.persistent > 0)}

extern "C" __global__ void {cluster}__launch_bounds__({32 * tile.warps}, {tile.blocks})
{KERNEL}({parameters}) {{
    extern __shared__ uint4 shared[];
    const Weights<Shape::Arithmetic> w = {{
        expand, expand_bias, depthwise, depthwise_bias, project, project_bias,
        {{{lows}}}, {{{highs}}}{f",{NEXT}{{{', '.join(scales)}}}" if scales else ""}}};
    Fused<Shape> block(shared, blockIdx.x % {tile.split});
    block.prefetch(w);{started}
    // waits for the kernel before only where it begins to read x
    block.run(x, w, residual, y, N, blockIdx.x / {tile.split}, gridDim.x / {tile.split});
}}
"""


WARPGROUP_PARAMETERS = """
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap expand,
    const __grid_constant__ TensorMap project, const __half* __restrict__ expand_bias,
    const __half* __restrict__ depthwise, const __half* __restrict__ depthwise_bias,
    const __half* __restrict__ project_bias, __half* __restrict__ y, int N"""
SM_90A = "// requires: sm_90a\n"  # the first line of a source that is compiled for that


def _source_of_warpgroups(block: Block, tile: Tile) -> str:
    lows, highs = (", ".join(literal(bound[side]) for bound in block.bounds) for side in (0, 1))
    sizes = {
        "H": block.height, "W": block.width, "C": block.channels, "HIDDEN": block.hidden, "O": block.outputs,
        "STRIDE": block.stride, "TILE_H": tile.tile_h, "IMAGES": tile.images, "SPLIT": tile.split,
        "STRIP": tile.strip, "THREADS": 32 * tile.warps,
    }  # fmt: skip
    cluster, rank = (f"__cluster_dims__({tile.split}, 1, 1) ", "cluster_rank()") if tile.split > 1 else ("", "0")
    return f"""{SM_90A}#include "fused/warpgroups.h"

struct Shape {{  // {block}
    static constexpr bool ADDS_X = {str(block.adds_input).lower()};
{_constants(sizes)}
}};

extern "C" __global__ void {cluster}__launch_bounds__({32 * tile.warps}, 1)
{KERNEL}({WARPGROUP_PARAMETERS}) {{
    extern __shared__ __align__(1024) __half shared[];
    Warpgroups<Shape> block{{
        shared, x, expand, project, {{expand_bias, depthwise, depthwise_bias, project_bias}}}};
    const Bounds bounds = {{
        {{{lows}}},
        {{{highs}}}}};
    block.run(bounds, y, N, {rank}, blockIdx.x / {tile.split}, gridDim.x / {tile.split});
}}
"""


ALONE_PARAMETERS = """
    const {T}* __restrict__ x, const uint4* __restrict__ fragments, {T}* __restrict__ y, int N"""


def _source_of_single_warps(block: Block, tile: Tile, dtype: str) -> str:
    pairs = dtype == "float32"
    lows, highs = (", ".join(literal(bound[side]) for bound in block.bounds) for side in (0, 1))
    flags = ({} if pairs else {"STEM": block.expand == "stem", "STREAMS": tile.streams}) | {"ADDS_X": block.adds_input}
    sizes = {
        "H": block.height, "W": block.width, "C": block.channels, "HIDDEN": block.hidden, "O": block.outputs,
        "STRIDE": block.stride, "INPUT_H": block.image[0], "INPUT_W": block.image[1], "STRIP": tile.strip,
        "THREADS": 32 * tile.warps, "PARTS": tile.warps // tile.pixel_warps, "BUFFERS": tile.stages,
    }  # fmt: skip
    parameters, kind, further = ALONE_PARAMETERS.format(T=TYPES[dtype]), "Alone", ""
    if pairs:
        parameters += ",\n" + wrapped(f"float {name}" for name in SCALES)
        kind, further = "AlonePairs", f", {{{', '.join(SCALES)}}}"
    return f"""// requires: sm_80
#include "fused/{"alone_pairs" if pairs else "alone"}.h"

struct Shape {{  // {block}
    static constexpr bool {", ".join(f"{name} = {str(value).lower()}" for name, value in flags.items())};
{_constants(sizes)}
}};

extern "C" __global__ void __launch_bounds__({32 * tile.warps}, {tile.blocks})
{KERNEL}({parameters}) {{
    extern __shared__ uint4 shared[];
    const AloneBounds bounds = {{
        {{{lows}}},
        {{{highs}}}}};
    {kind}<Shape> block(shared, fragments, bounds{further});
    block.run(x, y, N);
}}
"""


def _source_of_rows(block: Block, tile: Tile) -> str:
    lows, highs = (", ".join(literal(bound[side]) for bound in block.bounds) for side in (0, 1))
    sizes = {
        "H": block.height, "W": block.width, "C": block.channels, "O": block.outputs, "STRIDE": block.stride,
        "ROWS": tile.tile_h, "NEAR": tile.strip, "SIDE": tile.images, "SPLIT": tile.split, "WARPS": tile.warps,
        "PART": tile.slice, "PARTS": RowsSizes(block, tile).parts, "STAGES": tile.stages,
    }  # fmt: skip
    cluster = f"__cluster_dims__({tile.split}, 1, 1) " if tile.split > 1 else ""
    return f"""// requires: sm_90
#include "fused/rows.h"

struct Shape {{  // {block}
    static constexpr bool ADDS_X = {str(block.adds_input).lower()};
{_constants(sizes)}
}};

extern "C" __global__ void {cluster}__launch_bounds__({32 * tile.warps}, 1)
{KERNEL}({ALONE_PARAMETERS.format(T="__half")}) {{
    extern __shared__ uint4 shared[];
    const AloneBounds bounds = {{
        {{{lows}}},
        {{{highs}}}}};
    Rows<Shape> block(shared, fragments, N);
    block.run(bounds, x, y);
}}
"""


def options() -> tuple[str, ...]:
    """NVRTC's options for generated source: include folders, and a digest of the headers for the cache."""
    return (*header_options(), f"-I{FOLDER}", f"-DOPTIMIZE={_digest()}")


def headers() -> list[Path]:
    """The headers of the generated kernels."""
    return sorted(FOLDER.rglob("*.h"))


@functools.cache
def _digest() -> str:
    texts = [path.read_text(encoding="utf-8") for path in headers()]
    return "h" + hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


# ---- Compilation


def architecture(text: str = "") -> tuple[str, ...]:
    """NVRTC's -arch option for this card, with which machine code can be precompiled; () on the simulator.

    text: the source; one that begins with SM_90A is compiled for that.
    """
    name = "90a" if text.startswith(SM_90A) else str(cuda.compute_capability())
    return (f"-arch=sm_{name}",) if cuda.backend() == "gpu" else ()


def job(text: str) -> tuple[str, tuple[str, ...]]:
    """(source, options), for cubin.build_all."""
    return text, (*options(), *architecture(text))


@functools.lru_cache(maxsize=1024)
def _compiled(text: str, name: str, cooperative: bool, backend: str) -> Any:
    source, given = job(text)
    return cuda.RawKernel(source, name, options=given, enable_cooperative_groups=cooperative)


def compiled(text: str, name: str, cooperative: bool = False) -> Any:
    """The kernel `name` of a generated source, compiled once. cooperative: whether it uses a grid-wide barrier."""
    return _compiled(text, name, cooperative, cuda.backend())
