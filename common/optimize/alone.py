"""Tiles of single warps (fused/alone.h): their sizes, and a block's weights in the order in which lanes read them.

Sizes(block, tile)                            the struct AloneSizes of the header
fragments(block, expand, expand_bias, …)      one array of 32-bit words, for the kernel's parameter `fragments`
"""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import cuda
from ..cuda.arrays import are_shapes_only
from ..cuda.checks import blocks as ceil_div

if TYPE_CHECKING:
    from .generate import Block, Tile

COLUMNS = 14  # outputs of a row
SUMS = 112  # registers of a lane for the sums of its outputs, at most
STEM_HIDDEN, STEM_OUTPUTS, STEM_ROWS = 32, 16, 6  # of a stem: its channels, and rows that are unrolled
STEM_WARP = 4 * (8 * 132 + 128 + 4)  # bytes of a stem's warp: 8 pairs of rows, an output row, constants
BUFFERS = (1, 2)  # of a warp's x

# Taps of a lane's words, by stride: two of each row, the third ones of two rows as they follow, that of the last row,
# one that is read in vain, and those of two rows in the other order.
TAPS = {1: (0, 2, 3, 5, 6, 8, 1, 4, 7, None, 4, 1), 2: (0, 1, 3, 4, 6, 7, 2, 5, 8, None, 5, 2)}
BIAS = 27  # of the columns of a stem's matrix: 27 weights, then the bias


def _steps(block: "Block") -> int:
    """Products of 16 channels of expand, the last one of 8 perhaps."""
    return 2 if block.expand == "stem" else ceil_div(block.channels, 16)


def words(block: "Block") -> int:
    """Words of a lane for 16 hidden channels: WORDS of the header."""
    biases = 8 if block.expand == "stem" else 16
    return ceil_div(4 * _steps(block) + 24 + biases + 2 * (block.outputs // 8), 4) * 4


def size(block: "Block") -> int:
    """Words of all hidden channels, and of project's bias: ALL_WORDS of the header."""
    return block.hidden // 16 * words(block) * 32 + ceil_div(block.outputs, 4) * 4


class Sizes:
    """The sizes of a tile of single warps. rows: of hidden pixels; items: of an image; shared: bytes of a thread block.

    sums: registers of a lane for the outputs of an item. parts: warps that share an item's hidden channels.
    """

    def __init__(self, block: "Block", tile: "Tile") -> None:
        self.block, self.tile, stride = block, tile, block.stride
        out_h, out_w = block.out_size
        self.stem = block.expand == "stem"
        self.rows = (tile.strip - 1) * stride + 3
        self.items = ceil_div(out_w, COLUMNS) * ceil_div(out_h, max(1, tile.strip))
        self.x = 0 if self.stem else self.rows * 16 * stride * block.channels  # halves
        self.sums = 8 if self.stem else tile.strip * block.outputs // 2
        self.parts = tile.warps // tile.pixel_warps
        of_item = STEM_WARP if self.stem else tile.stages * self.x * 2
        added = tile.warps * 64 * tile.strip * block.outputs if self.parts > 1 else 0
        self.shared = 4 * size(block) + tile.pixel_warps * of_item + added

    def problems(self) -> Iterator[str]:
        """Why the tile is not possible but for shared memory, in words."""
        b, t, stem = self.block, self.tile, self.stem
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
        if stem and (b.channels, b.hidden, b.outputs) != (3, STEM_HIDDEN, STEM_OUTPUTS):
            yield f"a stem of single warps has 3>{STEM_HIDDEN}>{STEM_OUTPUTS} channels, got {b}"
        if stem and b.image[1] % 4:
            yield f"the width of a stem's image must be a multiple of 4 for single warps, got {b.image[1]}"
        if b.residual and not b.adds_input:
            yield "single warps add no residual but x"
        if t.chained or t.warpgroups:
            yield "tiles of single warps are neither chained nor have warpgroups"
        if (t.images, t.split, t.slice) != (1, 1, 16):
            yield f"single warps take 1 image, all hidden channels, 16 at a time: got {t}"
        if t.tile_w != COLUMNS or t.tile_h != t.strip:
            yield f"single warps take strip × {COLUMNS} outputs, got {t.tile_h}×{t.tile_w}, strip {t.strip}"
        if not 1 <= t.strip <= b.out_size[0] + (STEM_ROWS if stem else 0):
            yield f"strip must be from 1 to {b.out_size[0]} rows, got {t.strip}"
        if not 1 <= t.warps <= 32 or t.warps % t.pixel_warps:
            yield f"pixel_warps must divide at most 32 warps, got {t.pixel_warps} of {t.warps}"
        if self.parts > (1 if stem else b.hidden // 16):
            most = 1 if stem else b.hidden // 16
            yield f"at most {most} single warps can share {b.hidden} hidden channels, got {self.parts}"
        if t.stages not in BUFFERS or (stem and t.stages != 1):
            yield f"stages must be 1{'' if stem else ' or 2'} for single warps, got {t.stages}"
        if stem and self.rows % STEM_ROWS:
            yield f"strip + 2 must be a multiple of {STEM_ROWS} for a stem of single warps, got strip {t.strip}"
        if self.sums > SUMS:
            yield f"strip · outputs / 2 must be at most {SUMS} registers, got {self.sums}"
        if not stem and self.x < t.strip * 16 * b.outputs:
            yield f"y must fit where x was: {t.strip * 16 * b.outputs} elements into {self.x}"


# ---- The weights


def _column_of_stem(k: int) -> int:
    """Which column of a stem's weights row k of its matrix is; -1: zero.

    Under each row of taps lie 10 numbers, the first of which belongs to the pixel before: 8 of each row, then the last
    two of each.
    """
    row, number = (k // 8, k % 8) if k < 24 else ((k - 24) // 2, 8 + k % 2)
    if k == 30:
        return BIAS
    return -1 if k == 31 or number == 0 else row * 9 + number - 1


@functools.lru_cache(maxsize=32)
def _table(block: "Block") -> tuple[np.ndarray, np.ndarray]:
    """(halves, floats): of each word the places of its two halves, or of a float, among all parameters; 0: zero.

    halves: (planes of 16 hidden channels, words / 4, lanes, 4, 2). floats: the same without the last dimension.
    """
    stem = block.expand == "stem"
    columns = BIAS if stem else block.channels
    counts = 1, block.hidden * columns, block.hidden, block.hidden * 9, block.hidden
    expand, expand_bias, depthwise, depthwise_bias, project = np.cumsum(counts).tolist()
    planes = block.hidden // 16
    halves, floats = (np.zeros((planes, words(block), 32, *of), np.int32) for of in ((2,), ()))
    g, t, e = np.ogrid[:8, :4, :2]  # of lane 4g + t the element e of a word: fragments of mma, see ptx.h
    g, t, e = (part.reshape(32, 2) for part in np.broadcast_arrays(g, t, e))
    column_of_stem = np.array([_column_of_stem(k) for k in range(32)])
    for plane in range(planes):
        channel = 16 * plane
        found: list[np.ndarray] = []  # halves of one word after the other

        def biases(first: int, channel: int = channel, plane: int = plane, found: list[np.ndarray] = found) -> None:
            for i in range(8):  # four of each eight channels, two of them twice: a product's sums begin as they are
                floats[plane, len(found)] = first + channel + i // 4 * 8 + 2 * t[:, 0] + i % 2
                found.append(np.zeros((32, 2), np.int32))

        for i in range(4 * _steps(block)):
            row, k = channel + i // 2 % 2 * 8 + g, i // 4 * 16 + i % 2 * 8 + 2 * t + e
            if stem:
                column = column_of_stem[k]
                place = np.where(column == BIAS, expand_bias + row, expand + row * BIAS + column)
                found.append(np.where(column < 0, 0, place))
            else:
                found.append(np.where(k < columns, expand + row * columns + k, 0))
        if not stem:
            biases(expand_bias)
        for half in range(2):
            for tap in TAPS[block.stride]:
                diagonal = depthwise + (channel + half * 8 + g) * 9 + (tap or 0)
                found.append(np.where((2 * t + e == g) & (tap is not None), diagonal, 0))
        biases(depthwise_bias)
        for i in range(block.outputs // 8 * 2):
            found.append(project + (i // 2 * 8 + g) * block.hidden + channel + i % 2 * 8 + 2 * t + e)
        halves[plane, : len(found)] = found

    def by_lane(table: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(table.reshape(planes, -1, 4, *table.shape[2:]), 2, 3))

    return by_lane(halves), by_lane(floats)


def fragments(
    block: "Block", expand: Any, expand_bias: Any, depthwise: Any, depthwise_bias: Any, project: Any, project_bias: Any
) -> Any:
    """The words, uint32: (size(block),), of parameters in float16 as they are stored (NHWC); a bias may be None."""
    if are_shapes_only():
        return cuda.empty(size(block), np.uint32)  # of a plan

    def flat(array: Any, length: int = 0) -> np.ndarray:
        return np.zeros(length, np.float16) if array is None else cuda.asnumpy(array).reshape(-1)

    every = np.concatenate([
        np.zeros(1, np.float16), flat(expand), flat(expand_bias, block.hidden), flat(depthwise),
        flat(depthwise_bias, block.hidden), flat(project),
    ])  # fmt: skip
    halves, floats = _table(block)
    as_floats = every[floats].astype(np.float32).view(np.uint32)
    ordered = np.where(floats > 0, as_floats, every[halves].view(np.uint32)[..., 0])
    bias = np.zeros(ceil_div(block.outputs, 4) * 4, np.float32)
    bias[: block.outputs] = flat(project_bias, block.outputs)
    return cuda.asarray(np.concatenate([ordered.reshape(-1), bias.view(np.uint32)]))
