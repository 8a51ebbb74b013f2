"""Tiles with `warpgroups`: the sizes of fused/warpgroups.h, why a tile is not possible, and its tensor maps.

WarpgroupSizes(block, tile).shared        bytes of shared memory, computed as in the header
tensor_maps(sizes, x, expand, project)    the kernel's first three arguments
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import cuda
from ..cuda.checks import blocks as ceil_div

if TYPE_CHECKING:
    from .generate import Block, Tile

SLICE = 64  # hidden channels of a slice, and channels of a row of 128 bytes
GROUPS = (2, 4)  # warpgroups of a thread block
WIDTHS = (16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 240, 256)  # of a wgmma in include/wgmma.h
MOST_PIXELS = 256  # of a tile, in and out: rows of a bulk copy, and of four warpgroups
MOST_SHARED = 227 * 1024  # MOST of the header: bytes
ALIGNED = 1024  # bytes: tiles of wgmma begin at multiples of them
SPARE, BARRIERS = 8, 40  # halves: of a thread, and of a thread block
TAPS_WAVEFRONTS = 42  # of an item: taps and biases


def _below(pixels: int) -> int:
    """Warpgroups one below the other along the pixels, 64 each."""
    return 1 if pixels <= 64 else 2 if pixels <= 128 else 4


class WarpgroupSizes:
    """The struct of the header. shared: bytes of a thread block; width: outputs of a warpgroup, N of its wgmma.

    below, below_out: warpgroups along the pixels of x, and along those of y. items: parts of the depthwise convolution
    that a warp takes, of `strip` rows. box: rows of a bulk copy of project.
    """

    def __init__(self, block: "Block", tile: "Tile") -> None:
        self.block, self.tile = block, tile
        h, c, stride, groups = block.height, block.channels, block.stride, tile.warpgroups
        out_h, out_w = block.out_size
        self.tiles_h = ceil_div(out_h, tile.tile_h)
        rows_in = (tile.tile_h - 1) * stride + 3
        real_h = h if tile.tile_h == out_h else rows_in
        self.pixels_in, pitch = tile.images * real_h * block.width, ceil_div(out_w, 8) * 8
        self.rows_out = tile.images * tile.tile_h * pitch
        self.slices, self.k_tiles = block.hidden // SLICE, ceil_div(c, SLICE)
        self.below, self.below_out = _below(self.pixels_in), _below(self.rows_out)
        self.width = block.outputs // max(1, groups // self.below_out)
        strips = ceil_div(tile.tile_h, tile.strip)
        self.items = SLICE // 16 * ceil_div(tile.images * strips * (pitch // 8), 2)
        self.box = block.outputs if block.outputs <= MOST_PIXELS else block.outputs // 2

        # in halves, as in the header
        x, dw = self.k_tiles * ceil_div(self.pixels_in, 8) * 8 * SLICE, self.rows_out * SLICE
        w1, w3 = self.k_tiles * SLICE * SLICE, block.outputs * SLICE
        hidden = (tile.images * rows_in * (block.width + 2) + (pitch - out_w) * stride) * SLICE
        taps_and_biases = 2 * 9 * SLICE + 4 * SLICE + block.outputs
        spare = x + 2 * (w1 + w3 + dw + hidden) + taps_and_biases
        before_sums = 2 * (spare + SPARE * 32 * tile.warps + BARRIERS)
        part = ceil_div(self.width // 8, tile.split)
        sums = tile.split * part * 32 * tile.warps * 16 if tile.split > 1 else 0
        self.over = before_sums + sums > MOST_SHARED  # sums are sent where everything else was
        self.fits_over = sums <= 2 * spare
        self.shared = ceil_div(before_sums + (0 if self.over else sums), ALIGNED) * ALIGNED

    @property
    def wavefronts(self) -> float:
        """Of shared memory, 128 bytes each, for a slice of a tile."""
        block, tile, groups = self.block, self.tile, self.tile.warpgroups
        steps, rows = block.channels // 16, (tile.strip - 1) * block.stride + 3
        expand = groups * steps * (16 + SLICE // (groups // self.below) / 4)
        project = groups * SLICE // 16 * (16 + self.width / 4)
        copied = (self.k_tiles * SLICE + block.outputs + 9) * SLICE * 2 / 128
        stored = 4 * groups * SLICE // (groups // self.below) // 16 * 4 + 4 * self.items * tile.strip
        return expand + project + copied + stored + self.items * (12 * rows + TAPS_WAVEFRONTS)

    def problems(self) -> Iterator[str]:
        """Why the tile is not possible but for shared memory, in words."""
        b, t = self.block, self.tile
        if cuda.backend() == "gpu" and cuda.compute_capability() != 90:
            yield f"warpgroups need a card of sm_90, this one is sm_{cuda.compute_capability()}"
        if t.warpgroups not in GROUPS:
            yield f"warpgroups must be 0, 2 or 4, got {t.warpgroups}"
        if t.warps != 4 * t.warpgroups:
            yield f"warps must be 4 for each of {t.warpgroups} warpgroups, got {t.warps}"
        if b.expand != "pointwise":
            yield f'warpgroups need a "pointwise" expand, got "{b.expand}"'
        if t.slice != SLICE:
            yield f"warpgroups take slices of {SLICE} channels, got {t.slice}"
        if b.hidden % SLICE:
            yield f"hidden channels must be a multiple of {SLICE} for warpgroups, got {b.hidden}"
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
            if pixels > MOST_PIXELS:
                yield f"a tile must have at most {MOST_PIXELS} {words}, for warpgroups, got {pixels}"
            elif _below(pixels) > t.warpgroups:
                yield f"{pixels} {words} need 4 warpgroups, got {t.warpgroups}"
        side = max(1, t.warpgroups // self.below_out)
        if b.outputs % (8 * side) or self.width not in WIDTHS or b.outputs > 512 or self.box % 8:
            yield f"{side} warpgroups side by side need {side} × one of {WIDTHS} output channels, got {b.outputs}"
        if (t.split - 1) * ceil_div(self.slices, t.split) >= self.slices:
            yield f"split must leave a slice of {self.slices} to each block, got {t.split}"
        if self.over and not self.fits_over:
            yield "the sums of a cluster must fit where everything else was"


def tensor_maps(sizes: WarpgroupSizes, x: Any, expand: Any, project: Any) -> tuple[cuda.TensorMap, ...]:
    """The arguments x, (pixels, C), expand, (hidden, C), and project, (O, hidden), of the kernel."""
    boxes = (sizes.pixels_in, x), (SLICE, expand), (sizes.box, project)
    return tuple(cuda.TensorMap(matrix, (rows, SLICE)) for rows, matrix in boxes)
