"""Tiles for rungs 8 and 9, "persistent" and "persistent_halves", and for "persistent" of pointwise_int8.

Which are possible, and their order by arithmetic:

    candidates(12544, 160, 960)     tiles for 12,544 pixels, 160 input and 960 output channels, the best estimate first
    cycles(tile, 12544, 160, 960)   the estimate: clock cycles of the multiprocessor with most tiles
    problem(tile, 12544, 160, 960)  why a tile is not possible

A tile is {"BM": pixels, "BN": outputs, "TEAMS": groups of BM / 64 warpgroups that take turns, "STAGES": slices of 128
bytes of channels under way, "KEEP": whether the weights of a block's outputs stay in shared memory}, as in
8_persistent.cu, where it may also have "SPLIT": 2 blocks share the channels of a tile. `itemsize` is 2 for
rung 8, 4 for rung 9, whose weights are pairs of halves: the bytes of floats, and 1 in int8.
The estimate counts what a multiprocessor multiplies, reads and stores. It orders candidates, and is not to be believed
as a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import cuda
from ...cuda import checks

Tile = Mapping[str, int]

WIDTHS = (32, 64, 80, 96, 128, 160, 192, 240, 256)  # outputs of a wgmma in include/wgmma.h
WIDTHS_OF_HALVES = (32, 64, 80, 96, 128, 160)  # of include/wgmma_halves.h
NAMES = ("BM", "BN", "TEAMS", "STAGES", "KEEP")
SPLIT = "SPLIT"  # a tile may have it
SPLITS = (2,)
MOST_STAGES = 8
MOST_KEPT = 2048  # channels of weights that stay: an mbarrier for each slice of them
SLICE = 128  # bytes of a slice's row: 64 channels, 32 floats or pairs of halves, 128 int8
ROWS_OUT = 16 * 64 * 2  # bytes of shared memory through which a warp stores
BARRIERS = 1024  # bytes for the mbarriers
# Where sums leave less of a thread's registers, the assembler spills: 192×192 in fp16 has 96 sums of 152 registers.
SUMS, OTHERS = 0.62, 72  # the most of them, for fp16; so many registers besides, for pairs of halves

SENT_CYCLES = 300  # until the sums of a block of a cluster have come, beside their bytes
REQUANTIZED = 16  # int8 outputs
HALVES_CYCLES = 190  # of 32 floats of each row, from the slice's arrival to its first product


class Fitted(NamedTuple):
    """What times on an H200 say of a multiprocessor, so that the first candidate is near the fastest."""

    read_bytes: int  # per cycle, as stored_bytes
    stored_bytes: int
    start: int  # cycles until the first slice is there
    kept: int  # more of them until the weights that stay are there
    tile: int  # cycles of each tile, beside its products: waits at mbarriers, addresses


# by bytes per element; products are as in H100's data sheet
FITTED = {1: Fitted(32, 24, 2500, 420, 240), 2: Fitted(24, 32, 3500, 800, 60), 4: Fitted(32, 24, 2500, 800, 240)}


@dataclass(frozen=True)
class Size:
    """Blocks, threads per block, and bytes of shared memory per block of a launch; most: tiles of one block."""

    blocks: int
    threads: int
    shared: int
    most: int


def size(tile: Tile, p: int, c: int, o: int, pooled: int = 0, itemsize: int = 2) -> Size:
    """The launch for p pixels, c input and o output channels: at most one block per multiprocessor.

    pooled: pixels of an image, where a tile is an image and its mean is stored; 0 if all outputs are.
    """
    across, down = checks.blocks(o, tile["BN"]), checks.blocks(p, pooled or tile["BM"])
    consumers, slices = tile["TEAMS"] * tile["BM"] // 64, checks.blocks(c * itemsize, SLICE)
    split = tile.get(SPLIT, 1)
    if tile["KEEP"]:  # a multiple of `across`: then a block's tiles have the same outputs
        beside = min(checks.blocks(down, tile["TEAMS"]), max(1, cuda.multiprocessors() // across))
        blocks, most = across * beside, checks.blocks(down, beside)
    elif split > 1:  # a cluster for each tile
        blocks, most = across * down * split, 1
    else:
        blocks = min(checks.blocks(across * down, tile["TEAMS"]), cuda.multiprocessors())
        most = checks.blocks(across * down, blocks)
    rows = tile["STAGES"] * (tile["BM"] + (0 if tile["KEEP"] else tile["BN"]))
    rows += slices * tile["BN"] if tile["KEEP"] else 0
    ends = 12 * tile["BN"] if tile["KEEP"] and itemsize == 1 else 0
    sums = tile["BM"] * tile["BN"] * 4 // split if split > 1 else 0
    shared = rows * SLICE + ends + BARRIERS + sums + (consumers * 4 * ROWS_OUT if itemsize < 4 else 0)
    return Size(blocks, (consumers + 1) * 128, shared, most)


def problem(tile: Tile, p: int, c: int, o: int, pooled: int = 0, itemsize: int = 2) -> str | None:
    """Why a tile is not possible, in words; None if it is. pooled: as of size."""
    if set(tile) - {SPLIT} != set(NAMES):
        return f"tile must have {', '.join(NAMES)}, got {', '.join(tile)}"
    consumers = tile["TEAMS"] * tile["BM"] // 64
    needed = size(tile, p, c, o, pooled, itemsize).shared if tile["BM"] > 0 < tile["BN"] and tile["TEAMS"] > 0 else 0
    split = tile.get(SPLIT, 1)
    shared_channels = itemsize == 2 and not pooled and tile["TEAMS"] == 1 and not tile["KEEP"]
    widths = WIDTHS_OF_HALVES if itemsize == 4 else WIDTHS
    registers = _registers(consumers)
    sums = tile["BN"] * max(itemsize, 2) // 4  # of a thread; rung 9 has those of the last slice as well
    found = (
        (tile["BN"] in widths, f"BN must be one of {widths}"),
        (tile["BM"] in (64, 128, 192, 256), "BM must be 64, 128, 192 or 256"),
        (tile["TEAMS"] in (1, 2) and consumers <= 4, "TEAMS must be 1 or 2, with at most 256 pixels together"),
        (sums <= (registers - OTHERS if itemsize == 4 else SUMS * registers), f"a thread has {registers} registers"),
        (2 <= tile["STAGES"] <= MOST_STAGES, f"STAGES must be from 2 to {MOST_STAGES}"),
        (tile["KEEP"] in (0, 1), "KEEP must be 0 or 1"),
        (not tile["KEEP"] or c <= MOST_KEPT, f"KEEP is for at most {MOST_KEPT} channels, of {c}"),
        (split in (1, *SPLITS), f"SPLIT must be 1 or one of {SPLITS}"),
        (split == 1 or shared_channels, "SPLIT is for float16 without a pool, with TEAMS 1 and KEEP 0"),
        (split == 1 or c % (64 * split) == 0, f"SPLIT {split} is for multiples of {64 * split} channels, of {c}"),
        (split == 1 or tile["BN"] % (16 * split) == 0, f"with SPLIT {split} BN must be a multiple of {16 * split}"),
        (pooled <= tile["BM"], f"BM must be at least the {pooled} pixels of an image"),
        (needed <= cuda.shared_memory(), f"{needed:,} bytes of shared memory are needed of {cuda.shared_memory():,}"),
    )
    return next((f"{text}, got {dict(tile)}" for good, text in found if not good), None)


def tensor_maps(tile: Tile, x: Any, weight: Any) -> tuple[cuda.TensorMap, cuda.TensorMap]:
    """The arguments x, (P, C), and weight, (O, C) or Halves.rows: a copy brings BM or BN rows of 128 bytes."""
    first, second = SLICE // x.dtype.itemsize, SLICE // weight.dtype.itemsize
    return cuda.TensorMap(x, (tile["BM"], first)), cuda.TensorMap(weight, (tile["BN"], second))


def _registers(consumers: int) -> int:
    """Registers of a thread that multiplies, as UP in 8_persistent.cu."""
    if consumers < 2:
        return 240
    start = 65536 // ((consumers + 1) * 128) // 8 * 8
    return ((consumers + 1) * start - 40) // consumers // 8 * 8


def cycles(tile: Tile, p: int, c: int, o: int, pooled: int = 0, itemsize: int = 2) -> float:
    """An estimate of the time of the block with most tiles, for the order of candidates. pooled: as of size."""
    split, fitted = tile.get(SPLIT, 1), FITTED[itemsize]
    bm, bn, steps = tile["BM"], tile["BN"], checks.blocks(c, 32 if itemsize == 1 else 16) // split
    row = steps * 16 * max(itemsize, 2)  # bytes
    # a wgmma of 64×BN×16, in int8 of ×32, takes BN / 2 cycles, and reads 64 + BN rows of 32 bytes, 128 a cycle, from
    # shared memory
    multiply = bm // 64 * steps * max(bn / 2, bn / 4 + 16)
    if itemsize == 4:  # three of them, pixels in registers; every two steps a warpgroup splits floats and adds sums
        multiply = steps * max(bm // 64 * 3 * bn / 2, 3 * bn / 2 + (HALVES_CYCLES + bn / 2) / 2)
    read = row * (bm + (0 if tile["KEEP"] else bn)) / fitted.read_bytes
    # of a pool a warp's shuffles, about 3/4 of one per sum and 32 lanes
    store = bm * bn / 64 if pooled else bm * bn * (itemsize / fitted.stored_bytes if itemsize > 1 else 1 / REQUANTIZED)
    start: float = fitted.start
    if tile["KEEP"]:
        start += fitted.kept + row * bn / fitted.read_bytes
    if split > 1:  # each sends its sums, waits, and stores a part
        store = SENT_CYCLES + bm * bn * 4 / split / fitted.read_bytes + store / split
    most = size(tile, p, c, o, pooled, itemsize).most
    if tile["TEAMS"] == 1:
        return start + most * (max(multiply, read) + store + fitted.tile)
    return start + most * (max(multiply, read, store) + fitted.tile) + min(multiply, store)


def candidates(
    p: int, c: int, o: int, count: int | None = None, pooled: int = 0, itemsize: int = 2
) -> list[dict[str, int]]:
    """The possible tiles with the most STAGES that fit, the best estimate first; the first `count` of them.

    pooled: as of size.
    """
    found = []
    for bm in (64, 128, 192, 256):
        for bn in WIDTHS:
            for teams in (1, 2):
                for how in ({"KEEP": 0}, {"KEEP": 1}, *({"KEEP": 0, SPLIT: split} for split in SPLITS)):
                    fewest = {"BM": bm, "BN": bn, "TEAMS": teams, "STAGES": 2} | how
                    whole = SPLIT in how and size(fewest, p, c, o).blocks > cuda.multiprocessors()  # tiles enough
                    if not whole and problem(fewest, p, c, o, pooled, itemsize) is None:
                        stage = (bm + (0 if how["KEEP"] else bn)) * SLICE
                        more = (cuda.shared_memory() - size(fewest, p, c, o, pooled, itemsize).shared) // stage
                        found.append(fewest | {"STAGES": min(2 + more, MOST_STAGES)})
    return sorted(found, key=lambda tile: cycles(tile, p, c, o, pooled, itemsize))[:count]
