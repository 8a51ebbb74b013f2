"""The tile of an int8 block: counted instructions rank the tiles, a search on the card measures the first of them.

    rule(block, batch)           the tile with the least predicted time
    candidates(block, batch)     all tiles that fit, in this order
    shortlist(block, batch, n)   the first that are not alike: `python -m common tune --dtype int8` times them
    chosen_int8(block, batch)    the tile that was measured on this card, else the rule's

The kernels' time is that of their instructions, or of their products where hidden channels slide through registers
(`chained`): at half the bytes of fp16 nothing else is as slow. `Counts` has the instructions of each phase as the
compiler made them for sm_90a (cuda.inspect), per turn of the phase's loop.
"""

import functools
import hashlib
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import cuda
from ..files import replacing
from ..kernels.ladder import INCLUDE
from ..text import printable
from .features import missing
from .generate import ceil_div
from .tiles import machine

SUMS = 64  # most int32 sums of project per thread
ALONE_SUMS = 112  # the same of alone_int8
ALONE_REGISTERS = 120, 132  # of a lane of alone_int8 besides the sums, by stride
ALONE_STRIPS = (1, 2, 4, 5, 7, 8)  # which candidates have
STEM_REGISTERS = 248  # of a lane of stem_int8, of which a multiprocessor has 8 warps
STEM_STRIPS = (1, 2, 4, 5, 7, 8, 11, 14, 16, 20, 28, 38, 56, 112)
STEM_BYTES = 6 * 2 * 32 * 16 + 1488  # of its warps in shared memory: pairs of rows of a picture in float32, codes
REGISTERS = 64 * 1024  # of a multiprocessor
SHIPPED = Path(__file__).with_name("tiles_int8.json")


@dataclass(frozen=True)
class Int8Tile:
    """The tiling of a block: what a thread block computes at a time.

    tile_h, tile_w: output pixels, of so many images. slice: hidden channels, a multiple of 32. strip: rows of outputs
    that a thread convolves, a divisor of tile_h. warps, of which warps_n lie side by side along the outputs.
    chained: by sliding_int8.cu, whose hidden channels slide through registers; slice is then a multiple of 16, and
    pixel_warps warps share the pixels of 16 channels; blocks: at least so many fit on a multiprocessor; split: blocks
    of a cluster that share the hidden channels of a tile, for few images, on a card that has clusters.
    alone: by alone_int8.cu, or a stem by stem_int8.cu, where each warp takes `strip` rows of 14 columns of outputs by
    itself, `blocks` blocks to a multiprocessor, each of which takes one tile after the other.
    warpgroups: by warpgroups_int8.cu, where two warpgroups take a whole image of 14 columns, 64 channels at a time.
    bands: by bands_int8.cu, where a thread block takes `images` strips of `strip` rows of outputs at a time, a warp for
    each 16 hidden channels of 16 bands; what warps are left project.
    """

    tile_h: int
    tile_w: int
    images: int = 1
    slice: int = 32
    strip: int = 1
    warps: int = 8
    warps_n: int = 1
    chained: bool = False
    pixel_warps: int = 1
    blocks: int = 1
    split: int = 1
    alone: bool = False
    warpgroups: bool = False
    bands: bool = False

    @property
    def slides(self) -> bool:
        """Whether its kernel takes the weights of blocks_int8.Slid."""
        return self.kind != "fused"

    @property
    def kind(self) -> str:
        """Its kernel: "fused", "sliding", "alone", "warpgroups" or "bands"."""
        kinds = {"sliding": self.chained, "alone": self.alone, "warpgroups": self.warpgroups, "bands": self.bands}
        return next((kind for kind, there in kinds.items() if there), "fused")

    @property
    def small_project(self) -> bool:
        """Whether its kernel takes small sums of project alone (blocks_int8.suits)."""
        return self.alone or self.bands


SPLITS = 1, 2, 3, 4, 5, 6, 8  # blocks of a cluster
ALONE_COLUMNS = 14  # of outputs that a warp of alone_int8 takes
# hidden channels that warpgroups_int8 takes at a time; outputs that a warpgroup may have
GROUPS_SLICE, GROUPS_OUTPUTS = 64, (32, 48, 64, 80, 96)
BAND, AT_ONCE, RING = 7, 16, 8  # columns of a band of bands_int8, bands of a product, pairs of rows that are there


def row_bytes(channels: int) -> int:
    """Bytes of a row of so many channels in sliding_int8's shared memory: an odd number of 16."""
    return ceil_div(channels, 16) * 16 | 16


def output_group(outputs: int) -> int:
    """The outputs that sliding_int8's warps take together."""
    return 16 if outputs <= 16 else 32


@dataclass(frozen=True)
class Int8Block:
    """The shapes of a block: height × width pixels of `channels`, `hidden` channels, `outputs`; whether it expands.

    stem_h, stem_w: the image's size if expand is a stem, a 3×3 convolution of stride 2 and padding 1 on 3 channels.
    """

    height: int
    width: int
    channels: int
    hidden: int
    outputs: int
    stride: int = 1
    expand: bool = True
    stem_h: int = 0
    stem_w: int = 0

    @property
    def deep(self) -> int:
        """The bytes of a product that makes a hidden channel: of a stem 3 rows of 4 pixels of 4 channels."""
        return 48 if self.stem_h else self.channels

    @property
    def out_size(self) -> tuple[int, int]:
        """(OUT_H, OUT_W)."""
        return (self.height - 1) // self.stride + 1, (self.width - 1) // self.stride + 1

    def blocks(self, tile: Int8Tile, batch: int) -> int:
        """Thread blocks of a launch."""
        rows, columns = self.out_size
        if tile.alone:
            return min(ceil_div(batch * self.items(tile), tile.warps), tile.blocks * cuda.multiprocessors())
        if tile.warpgroups:
            return min(batch, cuda.multiprocessors())
        if tile.bands:
            return ceil_div(batch * ceil_div(rows, tile.strip), tile.images)
        return ceil_div(rows, tile.tile_h) * ceil_div(columns, tile.tile_w) * ceil_div(batch, tile.images) * tile.split

    def items(self, tile: Int8Tile) -> int:
        """Items of an image, of which a warp of alone_int8 takes one at a time."""
        rows, columns = self.out_size
        return ceil_div(rows, tile.strip) * ceil_div(columns, ALONE_COLUMNS)

    def stem_steps(self, tile: Int8Tile) -> int:
        """Rows of hidden pixels that a warp of stem_int8 takes for an item, by threes: STEPS of stem_int8.cu."""
        return 3 * ceil_div(tile.strip + 4, 3)

    def words(self) -> int:
        """Words of a lane for 16 hidden channels: WORDS of alone_int8.cu."""
        steps, rest = ceil_div(self.deep, 32), self.deep % 32
        return ceil_div(4 * steps - (2 if 0 < rest <= 16 else 0) + 12 + self.outputs // 8, 4) * 4

    def alone_problem(self, tile: Int8Tile) -> str | None:
        """Why alone_int8.cu, of a stem stem_int8.cu, cannot compute the block with this tile; None if it can.

        But for shared memory.
        """
        rows, columns = self.out_size
        if self.stem_h and (self.hidden, self.outputs, self.stride) != (32, 16, 1):
            return f"single warps take a stem with 32 hidden channels, 16 outputs and stride 1, got {self}"
        if self.stem_h and self.stem_w != 2 * self.width:
            return f"single warps take a stem on images of an even number of columns, got {self}"
        if not self.expand or self.hidden % 16:
            return f"single warps need a 1×1 expand, to a multiple of 16 hidden channels, got {self}"
        if columns % ALONE_COLUMNS or self.width != columns * self.stride:
            return f"single warps need outputs of {ALONE_COLUMNS}·n columns, got {self}"
        if (tile.tile_h, tile.tile_w, tile.images, tile.slice, tile.split) != (tile.strip, ALONE_COLUMNS, 1, 16, 1):
            return f"single warps take strip × {ALONE_COLUMNS} outputs of 1 image, 16 channels at a time, got {tile}"
        if tile.chained or not 1 <= tile.strip <= rows + 2:
            return f"a strip of single warps has 1 to {rows + 2} rows, got {tile}"
        if not self.stem_h and self.item_bytes(tile) < tile.strip * 16 * self.outputs:
            return f"outputs must fit where x was for single warps, got {self} and {tile}"
        return None

    def problem(self, tile: Int8Tile) -> str | None:
        """Why the kernel of a tile cannot compute the block; None if it can. But for shared memory."""
        if tile.bands:
            return self.bands_problem(tile)
        return self.alone_problem(tile) if tile.alone else self.groups_problem(tile) if tile.warpgroups else None

    def bands_problem(self, tile: Int8Tile) -> str | None:
        """`problem` of bands_int8.cu."""
        rows, columns = self.out_size
        if not self.expand or self.stem_h or self.hidden % 16:
            return f"bands need a 1×1 expand, to a multiple of 16 hidden channels, got {self}"
        fits = columns % BAND == 0 == AT_ONCE * BAND % columns
        if not fits or (self.height, self.width) != (rows * self.stride, columns * self.stride):
            return f"bands need outputs of 7, 14, 28, 56 or 112 columns, a half or all of x, got {self}"
        if not 1 <= tile.strip <= rows or rows % tile.strip or tile.strip % (3 - self.stride):
            return f"a strip of bands divides the rows, and is even at stride 1, got {self} and {tile}"
        subs = AT_ONCE * BAND // columns
        sets = tile.images // subs
        whole = Int8Tile(tile.strip, columns, sets * subs, self.hidden, tile.strip, tile.warps, bands=True)
        if tile != whole or sets < 1:
            return f"bands take all channels of strips × {columns} outputs, {subs}·n of them at once, got {tile}"
        project = tile.warps - sets * (self.hidden // 16)
        if project < sets or project % sets or tile.warps > 32:
            return f"bands need {sets * (self.hidden // 16)} warps that expand and {sets}·n that project, got {tile}"
        return None

    def groups_problem(self, tile: Int8Tile) -> str | None:
        """`problem` of warpgroups_int8.cu."""
        whole = Int8Tile(*self.out_size, slice=GROUPS_SLICE, warpgroups=True)
        if not self.expand or self.stem_h or self.width != 14 or self.height > 14:
            return f"warpgroups need a 1×1 expand and images of 14 columns and at most 14 rows, got {self}"
        if self.channels % 32 or self.channels > 128 or self.hidden % GROUPS_SLICE or self.hidden < 3 * GROUPS_SLICE:
            return f"warpgroups take 32, 64, 96 or 128 channels, and 192, 256, … hidden ones, got {self}"
        most = self.outputs // self._groups()[3]
        if self.outputs % 32 or most not in GROUPS_OUTPUTS:
            return f"warpgroups make 32, 64 or 96 outputs, at stride 2 also 128, 160 or 192, got {self}"
        return None if tile == whole else f"warpgroups take {whole}, got {tile}"

    def _groups(self) -> tuple[int, int, int, int]:
        """Of warpgroups_int8.cu: UNDER, X_MINE, Y_MINE and GROUPS_N."""
        twos = ceil_div(self.out_size[0], 2)
        tiles = ceil_div(twos * (2 if self.stride == 1 else 1), 4)
        across = 1 if tiles > 1 else 2
        return (2 * twos - 1) * self.stride + 3, ceil_div(self.height, 8), ceil_div(tiles, 3 - across), across

    def item_bytes(self, tile: Int8Tile) -> int:
        """Bytes of x of an item of alone_int8."""
        rows = (tile.strip - 1) * self.stride + 3
        return rows * 16 * self.stride * ceil_div(self.channels, 16) * 16

    def slices(self, tile: Int8Tile) -> int:
        """The most slices of hidden channels that a thread block takes."""
        return ceil_div(ceil_div(self.hidden, tile.slice), tile.split)

    def pixels(self, tile: Int8Tile) -> tuple[int, int]:
        """(hidden pixels of a block that are computed, in whole words of four; its output pixels)."""
        rows, columns = self.out_size
        in_h, in_w = (tile.tile_h - 1) * self.stride + 3, (tile.tile_w - 1) * self.stride + 3
        real_h = self.height if tile.tile_h >= rows else in_h
        real_words = ceil_div(self.width + 1 if tile.tile_w >= columns else in_w, 4)
        return 4 * tile.images * real_h * real_words, tile.images * tile.tile_h * tile.tile_w

    def registers(self, tile: Int8Tile) -> int:
        """Estimated registers per thread: sums of project, weights of expand, and those of the phases between."""
        weights = 4 * ceil_div(self.channels, 32) if self.expand else 0
        if tile.alone and self.stem_h:
            return STEM_REGISTERS
        if tile.warpgroups or tile.bands:
            return 255
        if tile.alone:
            return ALONE_REGISTERS[self.stride - 1] + self.sums(tile)
        if tile.chained:
            slides, sums = weights + (96 if self.stride == 1 else 100), self.sums(tile)
            # of a single slice they are not needed at the same time
            return max(slides, sums + 56) if self.slices(tile) == 1 else sums + slides
        return max(112, self.sums(tile) + weights + 56)

    def resident(self, tile: Int8Tile) -> int:
        """Thread blocks that a multiprocessor can hold at once."""
        by_memory = (cuda.shared_memory() + 1024) // (self.shared(tile) + 1024)
        if tile.warpgroups or tile.bands:
            return min(by_memory, 1)
        if tile.alone:
            return min(by_memory, REGISTERS // (min(255, ceil_div(self.registers(tile), 8) * 8) * 32 * tile.warps))
        if tile.chained:  # the compiler uses the registers that it may
            return min(by_memory, REGISTERS // (min(168, self.registers(tile)) * 32 * tile.warps), 64 // tile.warps)
        return min(by_memory, REGISTERS // (self.registers(tile) * 32 * tile.warps), 2048 // (32 * tile.warps))

    def reserved(self, tile: Int8Tile) -> int:
        """Bytes of shared memory that a launch asks for: of single warps so many that tile.blocks fit and no more.

        A multiprocessor that the kernel before leaves early would otherwise get several, and others none: the launch
        may begin before that kernel has ended, and has at most tile.blocks for each multiprocessor.
        """
        if not tile.alone:
            return self.shared(tile)
        too_many = (cuda.shared_memory() + 1024) // (tile.blocks + 1)  # with the 1024 that the system takes of a block
        return max(self.shared(tile), (too_many // 128 + 1) * 128 - 1024)

    def shared(self, tile: Int8Tile) -> int:
        """Bytes of shared memory of a thread block, as the kernel's SHARED."""
        if tile.chained:
            return self._shared_of_sliding(tile)
        if tile.bands:
            return self._shared_of_bands(tile)
        if tile.warpgroups:
            under, x_mine, y_mine, across = self._groups()
            square = 64 * 128
            weights = 3 * (square + 1024) + 2 * (self.outputs * 128 + 16 * (768 + 128))
            tiles = (4 * x_mine + y_mine * (3 - across)) * square
            return ceil_div(tiles + weights + 16 * (under * 128 + 64) + 56, 1024) * 1024  # as wgmma aligns it
        if tile.alone and self.stem_h:
            return tile.warps * STEM_BYTES
        if tile.alone:
            weights = 16 * (self.hidden // 16 * (8 * self.words() + 40) + self.outputs)
            return weights + 2 * tile.warps * self.item_bytes(tile)
        columns = self.out_size[1]
        in_h, in_w = (tile.tile_h - 1) * self.stride + 3, (tile.tile_w - 1) * self.stride + 3
        real_words = ceil_div(self.width + 1 if tile.tile_w >= columns else in_w, 4)
        row_words = max(real_words, ceil_div(tile.tile_w, 4) * self.stride + 1)
        pixels_in, pixels_out = self.pixels(tile)
        row_1, row = ceil_div(self.channels, 32) * 32 + 16, tile.slice + 16
        x = ceil_div(pixels_in, 32) * 32 * row_1 if self.expand else 0
        places = ceil_div(ceil_div(pixels_in, 32) * 32 // 4 * 8, 16) * 16
        beyond = (ceil_div(pixels_in, 32) * 32 - pixels_in) // 4  # words of the last 32 pixels
        hidden = 4 * (tile.images * in_h * row_words + beyond) * (tile.slice + 4)
        stage = (tile.slice * row_1 if self.expand else 0) + 9 * tile.slice + ceil_div(self.outputs, 32) * 32 * row
        return x + places + hidden + ceil_div(pixels_out, 16) * 16 * row + 2 * stage

    def _shared_of_bands(self, tile: Int8Tile) -> int:
        across, st = self.out_size[1] // BAND, self.stride
        pixel = ceil_div(self.channels, 16) | (st == 1)
        band, subs = pixel * BAND * st | 1, AT_ONCE // across
        sub = across * band + 2 * pixel
        sub += ((4 if subs == 4 else 2 if subs > 4 else 0) - sub) % 8  # so that eight rows lie in all banks
        dw = (3 - st) * BAND * AT_ONCE * (self.hidden // 16 | 1)
        of_set = RING * 2 * subs * sub + 2 * dw
        project = ceil_div(self.hidden, 32) * self.outputs * 2 + self.outputs
        return tile.images // subs * (16 * of_set + 8 * (RING + 2)) + 16 * project

    def _shared_of_sliding(self, tile: Int8Tile) -> int:
        in_h, in_w = (tile.tile_h - 1) * self.stride + 3, (tile.tile_w - 1) * self.stride + 3
        row_1, row, group = row_bytes(self.deep), row_bytes(tile.slice), output_group(self.outputs)
        x = tile.images * in_h * 2 * ceil_div(in_w, 2) * row_1
        if self.stem_h:
            x = tile.images * (2 * in_h + 1) * ceil_div(28 * ceil_div(tile.tile_w, 14) + 8, 4) * 16
        dw = ceil_div(tile.images * tile.tile_h * tile.tile_w, 16) * 16 * row
        slices = self.slices(tile)
        stage = (tile.slice * row_1 if self.expand else 0) + 48 * tile.slice
        outputs = ceil_div(self.outputs, group) * group
        weights = min(slices, 2) * stage + min(slices, 3) * outputs * row + 8 * outputs
        mail = 0
        if tile.split > 1:  # the sums of all blocks, four outputs of a pixel at a time
            pixels = tile.images * tile.tile_h * tile.tile_w
            pixels = ceil_div(pixels, 8) * 8 if self.outputs % 32 == 0 else pixels  # of a warp's rows, see BY_LANES
            quarters = pixels * self.outputs // 4
            mail = 16 * tile.split * ceil_div(quarters, tile.split) + 16
        return x + min(slices, 2) * dw + 512 * tile.warps + weights + 4 * (dw // row) + mail

    def sums(self, tile: Int8Tile) -> int:
        """int32 sums of project that a thread holds in registers."""
        if tile.warpgroups:
            _, _, y_mine, across = self._groups()
            return y_mine * self.outputs // across // 2
        if tile.alone:
            return self.outputs // 2 * (1 if self.stem_h else tile.strip)
        pixels = ceil_div(ceil_div(tile.images * tile.tile_h * tile.tile_w, 16), tile.warps // tile.warps_n)
        group = output_group(self.outputs) if tile.chained else 32
        return group // 2 * pixels * ceil_div(ceil_div(self.outputs, group), tile.warps_n)


# ---- Predicted times


@dataclass(frozen=True)
class Counts:
    """Instructions of the kernels, of a warp, in sm_90a's machine code with small sums (int8.small_sums).

    expand: per 32 pixels and 16 channels, the second one per further 32 input channels. copy: per word and quad of a
    block without expand. depthwise: per thread's strip; row: per row of it, by stride. project: per 16 pixels, 32
    outputs and 32 hidden channels. slice: per slice, for barriers, copies of weights and addresses. end: per 16 pixels
    and 32 outputs. latency: cycles between two instructions of one warp.
    Of sliding_int8, per 16 channels: item, of a strip and segment; slide, per row of 16 hidden pixels by stride,
    and per further 32 input channels; copied, per row without expand; out, per row of outputs. product:
    cycles of a tensor core for an mma of 32 bytes. mail: what a warp waits for the sums of a cluster, in instructions.
    fetched: bytes of weights that come to a multiprocessor per cycle, fitted to blocks at batch 1.
    Of alone_int8: alone_row, per row of hidden pixels of 16 channels, and alone_pixels, per 16 of them; alone_output,
    per row of outputs, besides project; plane, per 16 channels; stored, per row of outputs and 8 channels; alone_item;
    cycles of an instruction, of a warp alone and of one of several on a scheduler.
    Of warpgroups_int8, in cycles per image: group_slice, per 64 hidden channels; group_product, per product of
    depthwise by a warp; group_output, per output channel.
    Of bands_int8, in cycles of a scheduler: band_product, of 32 bytes and of 16; band_codes, of four numbers of each
    lane; band_tile, of 16 outputs besides; band_latency, of a warp that projects them; band_start, of a block.
    Of stem_int8: stem_row, per row of hidden pixels; stem_item; stem_start, until the first row; cycles of an
    instruction of one of several warps.
    """

    expand: tuple[int, int] = (99, 7)
    copy: int = 90
    depthwise: int = 104
    row: tuple[int, int] = (118, 135)
    project: int = 10
    slice: int = 250
    end: int = 110
    start: int = 400
    latency: float = 2.5
    item: int = 65
    slide: tuple[int, int, int] = (20, 18, 3)
    copied: int = 11
    out: int = 20
    product: float = 6.4
    mail: int = 150
    fetched: int = 21
    alone_row: int = 8
    alone_pixels: int = 15
    alone_output: int = 19
    plane: int = 45
    stored: int = 18
    alone_item: int = 200
    alone_latency: float = 1.5
    shared_latency: float = 1.1
    stem_row: int = 160
    stem_item: int = 90
    stem_start: int = 450
    stem_latency: float = 1.4
    group_slice: int = 1000
    group_product: int = 30
    group_output: int = 40
    band_product: tuple[float, float] = (6.2, 4.2)
    band_codes: float = 7.6
    band_tile: int = 150
    band_latency: int = 700
    band_start: int = 4500


COUNTS = Counts()


def predicted_cycles(block: Int8Block, tile: Int8Tile, batch: int, counts: Counts = COUNTS) -> float:
    """The predicted clock cycles of a launch: of the multiprocessor with the most blocks; infinite if none fits."""
    if tile.alone:
        return _of_single_warps(block, tile, batch, counts)
    if tile.warpgroups:
        return _of_warpgroups(block, tile, batch, counts)
    if tile.bands:
        return _of_bands(block, tile, batch, counts)
    if tile.chained:
        return _together(block, tile, batch, *_sliding(block, tile, counts))
    pixels_in, pixels_out = block.pixels(tile)
    warps, slices = tile.warps, ceil_div(block.hidden, tile.slice)
    if block.expand:
        turns = ceil_div(pixels_in, 32) * (tile.slice // 16)
        per_turn = counts.expand[0] + counts.expand[1] * (ceil_div(block.channels, 32) - 1)
    else:
        turns, per_turn = ceil_div(pixels_in // 4 * (tile.slice // 4), 32), counts.copy
    strips = tile.images * (tile.tile_h // tile.strip) * ceil_div(tile.tile_w, 4) * (tile.slice // 4)
    items = ceil_div(strips, 32)
    per_item = counts.depthwise + counts.row[block.stride - 1] * tile.strip
    tiles = ceil_div(pixels_out, 16) * ceil_div(block.outputs, 32)
    per_tile = counts.project * (tile.slice // 32)
    issued = slices * (turns * per_turn + items * per_item + tiles * per_tile + warps * counts.slice)
    issued += tiles * counts.end + warps * counts.start
    longest = slices * (
        ceil_div(turns, warps) * per_turn + ceil_div(items, warps) * per_item
        + ceil_div(tiles, warps) * per_tile + counts.slice
    ) + ceil_div(tiles, warps) * counts.end + counts.start  # fmt: skip
    return _together(block, tile, batch, issued / 4, longest * counts.latency)


def _together(block: Int8Block, tile: Int8Tile, batch: int, busy: float, longest: float) -> float:
    """Cycles of a launch whose blocks keep a multiprocessor busy for so many, and take `longest` each when alone."""
    resident = block.resident(tile)
    if resident < 1:
        return float("inf")
    several = ceil_div(block.blocks(tile, batch), cuda.multiprocessors())  # of the fullest multiprocessor
    rounds, left = divmod(several, resident)
    # four warps issue an instruction each per cycle; with few warps their own latency counts
    return rounds * max(resident * busy, longest) + (max(left * busy, longest) if left else 0.0)


def _sliding(block: Int8Block, tile: Int8Tile, counts: Counts) -> tuple[float, float]:
    """(cycles that a block of sliding_int8 keeps a multiprocessor busy, cycles of its longest warp)."""
    slices, steps = block.slices(tile), ceil_div(block.deep, 32)
    beside = block.stride == 1 and block.width == tile.tile_w == 7
    pairs = block.stride == 2 or beside
    units = tile.images * (tile.tile_h // tile.strip) * ceil_div(tile.tile_w, 7 if pairs else 14)
    items, rows = ceil_div(units, 2 if pairs else 1), (tile.strip - 1) * block.stride + 3
    row = counts.slide[block.stride - 1] + counts.slide[2] * (steps - 1) + 3 if block.expand else counts.copied
    per_item = counts.item + block.stride * rows * row + tile.strip * counts.out
    products = (block.stride * rows * 2 * steps if block.expand else 0) + 6 * tile.strip
    planes = tile.slice // 16 * tile.pixel_warps // tile.warps  # of a warp
    tiles_m = ceil_div(ceil_div(tile.images * tile.tile_h * tile.tile_w, 16), tile.warps // tile.warps_n)
    groups = ceil_div(ceil_div(block.outputs, 32), tile.warps_n)
    deep = ceil_div(tile.slice, 32)
    narrow = output_group(block.outputs) // 16  # 1 or 2
    project, project_products = (
        deep * ((1 + 2 * narrow) * tiles_m * groups + tiles_m),
        2 * narrow * deep * tiles_m * groups,
    )
    pixels_in = tile.images * ((tile.tile_h - 1) * block.stride + 3) * ((tile.tile_w - 1) * block.stride + 3)
    copies = 6 * ceil_div(slices * (tile.slice * (block.channels + block.outputs + 48)) // 16, 32 * tile.warps)
    copies += (130 if block.stem_h else 24) * ceil_div(pixels_in * ceil_div(block.channels, 16), 32 * tile.warps)
    end = narrow * tiles_m * groups * 60 + counts.start + (counts.mail if tile.split > 1 else 0)
    issued = slices * (tile.slice // 16 * items * per_item + tile.warps * (project + 40)) + tile.warps * (copies + end)
    tensor = slices * (tile.slice // 16 * items * products + tile.warps * project_products) * counts.product
    longest = slices * (planes * ceil_div(items, tile.pixel_warps) * per_item + project + 40) + copies + end
    weights = slices * tile.slice * (block.deep * block.expand + block.outputs + 48)
    return max(issued, tensor) / 4, longest * counts.latency + weights / counts.fetched


def _of_single_warps(block: Int8Block, tile: Int8Tile, batch: int, counts: Counts) -> float:
    """The clock cycles of the warps that take the most items."""
    if block.stem_h:
        return _of_stem(block, tile, batch, counts)
    rows, stride = (tile.strip - 1) * block.stride + 3, block.stride
    a_row = counts.alone_row + stride * (counts.alone_pixels + 3 * ceil_div(block.channels, 32))
    of_outputs = tile.strip * (counts.alone_output + block.outputs // 8)
    issued = block.hidden // 16 * (rows * a_row + of_outputs + counts.plane) + counts.alone_item
    issued += tile.strip * counts.stored * block.outputs // 8
    at_once, sharing, turns = _turns(block, tile, batch)
    weights = (block.shared(tile) - 2 * tile.warps * block.item_bytes(tile)) / counts.fetched
    return (
        turns * issued * max(counts.alone_latency, counts.shared_latency * sharing) + weights * at_once + counts.start
    )


def _of_warpgroups(block: Int8Block, tile: Int8Tile, batch: int, counts: Counts) -> float:
    """The clock cycles of the multiprocessor with most images, slice by slice."""
    products = ceil_div(block.out_size[0], 2) * 3 * (2 if block.stride == 1 else 1)  # of a slice, by a warp's mma
    of_slice = counts.group_slice + products * counts.group_product
    of_image = block.hidden // GROUPS_SLICE * of_slice + block.outputs * counts.group_output + counts.alone_item
    return ceil_div(batch, cuda.multiprocessors()) * of_image + counts.start


def _of_bands(block: Int8Block, tile: Int8Tile, batch: int, counts: Counts) -> float:
    """The clock cycles of the multiprocessor with most thread blocks: that its schedulers issue, or a warp waits."""
    rows, pixels = 3 - block.stride, BAND * block.stride + 3 - block.stride
    full, half = counts.band_product
    sets = tile.images * block.out_size[1] // (BAND * AT_ONCE)
    rest = block.channels % 32
    deep = block.channels // 32 * full + (half if 0 < rest <= 16 else full if rest else 0)
    hidden = 4 * pixels * (deep + counts.band_codes)
    outputs = 2 * rows * BAND * (2 * (full + half) + counts.band_codes + 2)
    of_tile = block.outputs / 8 * (ceil_div(block.hidden, 32) * full + 2 * counts.band_codes) + counts.band_tile
    expanders, tiles = sets * block.hidden // 16, sets * rows * BAND
    issued = expanders * (hidden + outputs) + tiles * of_tile
    of_projector = ceil_div(tiles, tile.warps - expanders) * counts.band_latency
    of_step = max(issued / 4, ceil_div(expanders, 4) * (hidden + outputs), of_projector)
    steps = tile.strip // rows
    first = expanders * hidden / 4 * rows / 2
    turns = ceil_div(block.blocks(tile, batch), cuda.multiprocessors())
    return turns * (steps * of_step + first + counts.band_start)


def _turns(block: Int8Block, tile: Int8Tile, batch: int) -> tuple[int, int, int]:
    """Of single warps (thread blocks of a multiprocessor, warps of a scheduler, items of a warp), the most of each."""
    launched, processors = batch * block.items(tile), cuda.multiprocessors()
    at_once = min(tile.blocks, ceil_div(launched, processors * tile.warps))
    sharing = ceil_div(min(tile.warps * at_once, launched), 4)
    return at_once, sharing, ceil_div(launched, tile.warps * at_once * processors)


def _of_stem(block: Int8Block, tile: Int8Tile, batch: int, counts: Counts) -> float:
    _, sharing, turns = _turns(block, tile, batch)
    issued = turns * (block.stem_steps(tile) * counts.stem_row + counts.stem_item) + counts.stem_start
    return issued * max(counts.alone_latency, counts.stem_latency * sharing) + counts.start


def candidates(block: Int8Block, batch: int) -> list[Int8Tile]:
    """All tiles that fit on the card, the fastest by `predicted_cycles` first."""
    return list(_candidates(block, batch, cuda.multiprocessors(), cuda.shared_memory()))


def shortlist(block: Int8Block, batch: int, most: int) -> list[Int8Tile]:
    """What a search measures: the first `most` candidates, of which no three have the same pixels, kernel and split.

    And behind them the first ones of kernels that have less than two among these.
    """
    taken: list[Int8Tile] = []
    alike: Counter[Any] = Counter()
    of_kernel: Counter[Any] = Counter()
    for tile in candidates(block, batch):
        shape = tile.tile_h, tile.tile_w, tile.images, tile.kind, tile.split
        if alike[shape] < 2 and (len(taken) < most or of_kernel[tile.kind] < 2):
            alike[shape] += 1
            of_kernel[tile.kind] += 1
            taken.append(tile)
    return taken


@functools.lru_cache(maxsize=256)
def _candidates(block: Int8Block, batch: int, processors: int, memory: int) -> tuple[Int8Tile, ...]:
    rows, columns = block.out_size
    heights = dict.fromkeys(min(side, rows) for side in (2, 4, 7, 8, 14, 16, 28))
    widths = dict.fromkeys(min(side, columns) for side in (4, 7, 8, 14, 16, 28))
    whole = list(itertools.product(heights, widths))
    most = 0 if block.stem_h else ceil_div(block.hidden, 32) * 32  # a stem has none of these
    found = []
    for (h, w), channels, warps in itertools.product(whole, (32, 64, 96, 128), (4, 6, 8, 12, 16)):
        if channels > most or warps % (channels // 16):
            continue
        several = (1, 2, 4) if (h, w) == (rows, columns) and h * w < 100 else (1,)
        for images, strip in itertools.product(several, (1, 2, 4, 7, 8)):
            if images > batch or h % strip:
                continue
            able = [Int8Tile(h, w, images, channels, strip, warps, n) for n in (1, 2, 4, 8) if warps % n == 0]
            tile = min(able, key=block.sums)
            spills = block.registers(tile) * 32 * warps > REGISTERS
            if block.sums(tile) <= SUMS and block.shared(tile) <= memory and not spills:
                found.append((predicted_cycles(block, tile, batch), block.shared(tile), tile))
    more = [kind(block, batch) for kind in (_sliding_tiles, _alone_tiles, _group_tiles, _band_tiles)]
    for tile in itertools.chain(*more):
        found.append((predicted_cycles(block, tile, batch), block.shared(tile), tile))
    found.sort(key=lambda one: one[:2])
    return tuple(tile for cycles, _, tile in found if cycles < float("inf"))


def _sliding_tiles(block: Int8Block, batch: int) -> Iterator[Int8Tile]:
    """The tiles of sliding_int8 that fit."""
    rows, columns = block.out_size
    heights = dict.fromkeys(min(side, rows) for side in (1, 2, 4, 7, 8, 14, 16, 28))
    widths = dict.fromkeys(min(side, columns) for side in (7, 14, 28, 56))
    sizes = [size for size in (16, 32, 48, 64, 80, 96, 128, 144, 160, 192) if size < block.hidden + 16]
    # a slice for each block of the largest cluster need not divide the channels
    able = [size for size in sizes if block.hidden % size == 0 or ceil_div(block.hidden, size) == SPLITS[-1]]
    for h, w, channels, warps in itertools.product(heights, widths, able or sizes[:2], (2, 3, 4, 5, 6, 8, 10, 12, 16)):
        if (w > 14 and w % 14) or (block.stem_h and w % 2):
            continue
        whole = (h, w) == (rows, columns) and h * w < 200
        for images, strip in itertools.product((1, 2, 4) if whole else (1,), (1, 2, 4, 7, 8, 14)):
            if images > batch or h % strip:
                continue
            for sharing in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16):
                if warps % sharing or channels // 16 % (warps // sharing):
                    continue
                beside = [n for n in (1, 2, 3, 4, 5, 8) if warps % n == 0]
                tiles = [Int8Tile(h, w, images, channels, strip, warps, n, True, sharing) for n in beside]
                alone = min(tiles, key=block.sums)
                for split in _splits(block, alone, batch):
                    tile = replace(alone, split=split)
                    resident = block.resident(tile)
                    if block.sums(tile) <= SUMS and resident > 0 and block.shared(tile) <= cuda.shared_memory():
                        yield replace(tile, blocks=min(resident, 4))


def _alone_tiles(block: Int8Block, batch: int) -> Iterator[Int8Tile]:
    """The tiles of alone_int8 and stem_int8 that fit."""
    strips = STEM_STRIPS if block.stem_h else ALONE_STRIPS
    for strip, warps, blocks in itertools.product(strips, (2, 3, 4, 6, 8, 10, 12), (1, 2, 3, 4)):
        tile = Int8Tile(strip, ALONE_COLUMNS, 1, 16, strip, warps, blocks=blocks, alone=True)
        if warps * blocks > 12 or block.alone_problem(tile) or block.sums(tile) > ALONE_SUMS:
            continue
        fits = block.shared(tile) <= cuda.shared_memory() and block.resident(tile) >= blocks
        if fits and batch * block.items(tile) > (blocks - 1) * warps * cuda.multiprocessors():
            yield tile


def _group_tiles(block: Int8Block, batch: int) -> Iterator[Int8Tile]:
    """The tile of warpgroups_int8, if the card and the block have one."""
    tile = Int8Tile(*block.out_size, slice=GROUPS_SLICE, warpgroups=True)
    fits = not block.groups_problem(tile) and block.shared(tile) <= cuda.shared_memory()
    if cuda.compute_capability() == 90 and fits:
        yield tile


def _band_tiles(block: Int8Block, batch: int) -> Iterator[Int8Tile]:
    """The tiles of bands_int8 that fit."""
    if cuda.compute_capability() != 90:
        return
    planes, columns = block.hidden // 16, block.out_size[1]
    for strip, sets, more in itertools.product(range(1, block.out_size[0] + 1), (1, 2), (1, 2, 3, 4, 6)):
        warps = sets * planes + more
        images = sets * (AT_ONCE * BAND // columns)
        tile = Int8Tile(strip, columns, images, block.hidden, strip, warps, bands=True)
        # more than 12 warps have too few registers, unless those that project leave the others theirs
        able = warps <= 12 or (warps, sets * planes) == (16, 12)
        if able and not block.problem(tile) and block.shared(tile) <= cuda.shared_memory():
            yield tile


def _splits(block: Int8Block, tile: Int8Tile, batch: int) -> list[int]:
    """Into how many blocks of a cluster a tile's hidden channels may be split: more than 1 where few are busy."""
    slices, blocks = ceil_div(block.hidden, tile.slice), block.blocks(tile, batch)
    if missing("clusters") or 2 * blocks > 3 * cuda.multiprocessors():
        return [1]
    return [n for n in SPLITS if n <= slices and blocks * n <= 3 * cuda.multiprocessors()]


def rule(block: Int8Block, batch: int, chained: bool | None = None) -> Int8Tile | None:
    """The tile with the least predicted time; None if no tile fits. chained: only tiles that are, or that are not.

    None of single warps: what they are given the host puts in order first, which a network does once (`chosen_int8`).
    """
    tiles = (tile for tile in candidates(block, batch) if tile.kind in ("fused", "sliding"))
    return next((tile for tile in tiles if chained in (None, tile.chained)), None)


# ---- Measured tiles


def key_of(block: Int8Block) -> str:
    """A block in words, the key of tiles_int8.json: "56×56 24>144>24", "… stride 2", "… without expand"."""
    more = f" stride {block.stride}" * (block.stride > 1) + " without expand" * (not block.expand)
    more += f" stem {block.stem_h}×{block.stem_w}" * (block.stem_h > 0)
    return f"{block.height}×{block.width} {block.channels}>{block.hidden}>{block.outputs}{more}"


@functools.cache
def sources() -> str:
    """A digest of the kernels and the headers, whose tiles are measured."""
    kernels = "inverted_residual_int8", "sliding_int8", "alone_int8", "stem_int8", "warpgroups_int8", "bands_int8"
    files = [*(Path(__file__).with_name(f"{name}.cu") for name in kernels), *sorted(INCLUDE.glob("*.h"))]
    return hashlib.sha256("".join(path.read_text(encoding="utf-8") for path in files).encode()).hexdigest()[:16]


def cache_path() -> Path:
    """The file of this card's measured tiles."""
    return cuda.cache_dir() / f"tiles-int8-{'-'.join(machine()['card'].lower().split())}.json"


def _read(path: Path) -> dict[str, Any]:
    """A file's content, checked. ValueError, TypeError or KeyError if it is invalid, OSError if it cannot be read."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("found"), dict) or "card" not in content:
        raise ValueError('it must hold {"card": …, "found": {…}}')
    for batches in content["found"].values():
        for batch, entry in batches.items():
            if int(batch) < 1:
                raise ValueError(f"batch must be at least 1, got {batch}")
            for name, n in {} if entry["tile"] is None else asdict(Int8Tile(**entry["tile"])).items():
                kind = bool if name in ("chained", "alone", "warpgroups", "bands") else int
                if type(n) is not kind or (kind is int and n < 1):
                    raise ValueError(f"a tile's {name} must be an integer of at least 1, got {n!r}")
    return content


@functools.lru_cache(maxsize=8)
def _found(path: Path, stamp: int, card: str, digest: str | None) -> Mapping[str, Any]:
    """The tiles of a file; none, with a warning, if it cannot be read, and none if they are of another card."""
    try:
        content = _read(path)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        warnings.warn(f"{path} cannot be read and is left aside: {printable(error)}", stacklevel=4)
        return {}
    right = content["card"] == card and digest in (None, content.get("sources"))
    return content["found"] if right else {}


def chosen_int8(block: Int8Block, batch: int) -> Int8Tile | None:
    """The tile of a block: measured on this card or one of its name, else the rule's; None for separate kernels.

    A batch that was not measured takes the tile of the nearest one that fits; of two equally near, what was measured
    here.
    """
    if cuda.compute_capability() < 80:
        return None
    measured: list[tuple[float, Any]] = []
    for path, digest in ((cache_path(), sources()), (SHIPPED, None)):
        if path.exists():
            batches = _found(path, path.stat().st_mtime_ns, machine()["card"], digest).get(key_of(block), {})
            measured += [(max(int(n) / batch, batch / int(n)), entry["tile"]) for n, entry in batches.items()]
    for _, made in sorted(measured, key=lambda one: one[0]):
        if made is None:
            return None
        tile = Int8Tile(**made)
        if tile.images <= batch and block.shared(tile) <= cuda.shared_memory():
            return tile
    return rule(block, batch)


@dataclass(frozen=True)
class FoundInt8:
    """What a search measured: the best tile in µs, the separate kernels in µs, wrong tiles in words.

    fuse: whether networks are to use the tile; None: if it is faster than the separate kernels, each timed alone.
    """

    block: Int8Block
    batch: int
    best: Int8Tile
    us: float
    separate_us: float
    rule_us: float
    wrong: tuple[str, ...] = ()
    fuse: bool | None = None

    @property
    def tile(self) -> Int8Tile | None:
        """The best tile, or None for separate kernels, which read and write the hidden tensors."""
        fuse = self.us <= self.separate_us if self.fuse is None else self.fuse
        return self.best if fuse else None


def remember(founds: Iterable[FoundInt8], path: Path | None = None) -> Path:
    """Add results to a file, by default cache_path(), replacing older ones; return its path.

    Results of another card or of other sources are dropped. OSError if it cannot be written.
    """
    path = cache_path() if path is None else Path(path)
    here = {"card": machine()["card"], "driver": machine()["driver"], "sources": sources()}
    held: dict[str, Any] = {}
    if path.exists():
        try:
            content = _read(path)
            held = content["found"] if all(content.get(name) == value for name, value in here.items()) else {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            held = {}
    for found in founds:
        entry = {"tile": None if found.tile is None else asdict(found.tile)}
        entry |= {name: round(getattr(found, name), 2) for name in ("us", "separate_us", "rule_us")}  # type: ignore[arg-type]
        held.setdefault(key_of(found.block), {})[str(found.batch)] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(here | {"found": held}, indent=1, ensure_ascii=False) + "\n")
    return path
