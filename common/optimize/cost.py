"""The cost model: predicted time of a fused block from counted instructions and bytes; the candidate tiles, ranked.

    predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)      µs of a fused block
    separate(block, batch, itemsize, multiprocessors)                            µs of separate kernels
    ranked(block, batch, itemsize, multiprocessors, shared_memory)               all candidates, the fastest first

No GPU is needed. The predictions rank candidates well, but as times they may be wrong by a factor of two, so search.py
times the best-ranked ones. Arguments: itemsize, bytes per element, 4 (float32) or 2 (float16); multiprocessors of the
card; shared_memory, bytes per thread block.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .generate import (
    ALONE_BUFFERS,
    ALONE_COLUMNS,
    ROWS_COLUMNS,
    WARPGROUPS,
    Block,
    Geometry,
    Tile,
    alone_size,
    ceil_div,
)  # fmt: skip

# ---- Constants fitted to an H200 (132 multiprocessors, 1.75 GHz). Keys of dictionaries are the itemsize.

CLOCK_GHZ = 1.75
SCHEDULERS = 4  # of a multiprocessor; each issues one instruction per cycle
WARPS_RESIDENT = 64  # at most, on a multiprocessor
REGISTERS = 65536  # of a multiprocessor
SHARED_RESERVED = 1024  # bytes of shared memory that the driver keeps per thread block
L2_BYTES = 40.0  # bytes per multiprocessor and cycle
LATENCY = 900.0  # cycles from the first request of a tile to the arrival of the last
START = 1500.0  # cycles of an empty launch
CLUSTER = 1300.0  # cycles to add up the sums of a cluster
BARRIER = 60.0  # cycles of __syncthreads

# Attainable share of the peak of each pipe
ISSUE_PEAK, ISSUE_BASE, ISSUE_PER_WARP = 0.8, 0.06, 0.037  # issue slots used grow with the resident warps
SHARED_PEAK = 0.85
TENSOR_PEAK = 0.8

# Tensor-core products
TF32_PRODUCTS = {4: 3, 2: 1}  # instructions per product: an fp32 product is the sum of three TF32 products
MMA_CYCLES = {4: 2.1, 2: 1.6}  # tensor-core cycles per mma instruction
FRAGMENT_ISSUE = {4: 13, 2: 1}  # instructions per fragment loaded: fp32 is split into two TF32 parts
FRAGMENT_WAVEFRONTS = 4
WEIGHTS_IN_REGISTERS = 12  # fragments of expand weights that a warp keeps in registers

# The expansion, per tile of 16 pixels
EXPAND_ISSUE = 14  # addresses and bounds
EXPAND_EPILOGUE = {4: 30, 2: 12}  # bias, clamp, store: instructions per 16 hidden channels
CHAINED_EPILOGUE = 10  # clamp to halves in registers: instructions per 16 hidden channels
SEGMENT = {1: 14, 2: 7}  # by stride: columns of outputs of a warp where rows slide through registers (fused/sliding.h)
SLIDING_ROW_ISSUE = {(4, 1): 48, (2, 1): 22, (4, 2): 24}  # per row of 16 hidden pixels and channels: clamp, neighbours
SLIDING_ROW_WAVEFRONTS = {(4, 1): 16, (2, 1): 8, (4, 2): 4}  # shuffles
SLIDING_OUTPUT_ISSUE = {(4, 1): 110, (2, 1): 26, (4, 2): 55}  # per row of outputs: taps, clamp, store
SLIDING_OUTPUT_WAVEFRONTS = {(4, 1): 16, (2, 1): 4, (4, 2): 8}
SLIDING_OUTPUT_TENSOR = {4: 0.0, 2: 14.4}  # cycles of the taps' products
SLIDING_REGISTERS = {4: 125, 2: 75}  # besides the sums of project and the weights of expand, which are held up to
SLIDING_HELD = {4: 40, 2: 40}  # registers per thread
EXPAND_WAVEFRONTS = {4: 8, 2: 4}  # wavefronts of these stores

# The depthwise convolution on CUDA cores, per strip of output rows of one lane
TAPS_ISSUE = 12  # multiply-adds and their moves per output row and channel of a vector
STRIP_ROW_ISSUE = 2
STRIP_ISSUE = 24
STRIP_CHANNEL_ISSUE = 20
STRIP_CHANNEL_WAVEFRONTS = 10
# … and on tensor cores, per strip of 16 positions
BANDED_ISSUE = 85
BANDED_ROW_ISSUE = 24
BANDED_INPUT_WAVEFRONTS = 12
BANDED_ROW_WAVEFRONTS = 4
BANDED_WAVEFRONTS = 20
TAPS = 9  # of a 3×3 kernel: mma instructions per output row

# The rest of a tile
COPY_ISSUE = 24  # instructions per 16 bytes of weights that a thread copies
INPUT_ISSUE = 20  # instructions per 16 bytes of input, over a warp's 32 lanes
STEM_INPUT_FACTOR = 1.5  # pixels of three channels do not fill 16-byte vectors
SUMS_ISSUE = 30  # instructions per 16×16 outputs of a warp: first values, last stores
TILE_ISSUE = 150  # instructions per tile and warp: its address

# Tiles with warpgroups, fitted to 24 times of batch 256 without clusters: nearly all within 11 %
WARPGROUP_TILE = 4800.0  # cycles of a tile besides its slices: its x, its last products, its y
WARPGROUP_ROW = 130.0  # cycles of a row of hidden pixels that a warp convolves, beside the wavefronts
WARPGROUP_BATCH = 64  # images, at least, for which they are candidates
WARPGROUP_OUTPUTS = 196  # outputs of an image, at most

# Tiles of single warps, instructions of a warp, by itemsize; fitted to 80 times of batches 1 to 256 in float16, and to
# 415 in float32, of pairs of halves
ALONE_ROW, ALONE_STEP = {4: 7, 2: 7}, {4: 38, 2: 8}  # of a row of hidden pixels; of 16 of them
ALONE_FRAGMENT = {4: 15, 2: 3}  # of 16 channels of expand
ALONE_OUTPUT, ALONE_EIGHT = {4: 122, 2: 26}, {4: 12, 2: 1}  # of a row of outputs; of 8 channels of project
ALONE_PLANE = {4: 15, 2: 25}  # of 16 hidden channels
ALONE_STORED, ALONE_ITEM = {4: 108, 2: 40}, {4: 82, 2: 150}  # of a row of outputs stored; of an item
ALONE_ADDED, ALONE_MEETING = (
    {4: 6, 2: 4},
    60,
)  # where warps share an item: of 8 channels of a row of outputs; of an item
ALONE_STEM_ROW = 140  # of a row of hidden pixels of a stem
# cycles of an instruction: of a warp alone; of one of several on a scheduler
ALONE_CYCLES, ALONE_SHARED_CYCLES = {4: 2.0, 2: 3.0}, {4: 1.6, 2: 2.4}
ALONE_STRIPS = (1, 2, 4, 7)  # which candidates have
ALONE_SHARED_BATCH = 32  # images, at most, for which several warps share an item
ALONE_STEM_STRIPS = (4, 10, 16, 28)

# Tiles of rows, cycles; fitted to 659 times of batches 1, 8 and 32: 15 % off in the mean
ROWS_LAUNCH, ROWS_TILE, ROWS_SLICE = 170.0, 1170.0, 740.0  # of a launch; of a tile; of a slice of it
ROWS_STEP = 100.0  # of a row of hidden pixels, after which the next one begins
ROWS_HIDDEN, ROWS_PROJECT = 11.5, 9.0  # of a product, of a scheduler
ROWS_LETTER = 6.6  # of 256 bytes of sums that another thread block sends
ROWS_WEIGHTS = 0.022  # of a byte of weights of all thread blocks, on each multiprocessor
ROWS_TAPS = 5  # products of 8 channels of a row of outputs
ROWS_BATCH = 64  # images, at most, for which they are candidates

# Separate kernels, each measured alone
SEPARATE_BYTES_PER_US = 23.5e3  # per multiprocessor: 3.1 TB/s on 132 of them
SEPARATE_PRODUCTS_PER_US = {4: 0.3e6, 2: 1.14e6}  # multiply-accumulates per multiprocessor of 1×1 convolutions
SEPARATE_TAPS_PER_US = 91e3  # multiply-accumulates per multiprocessor of depthwise convolutions
STEM_PRODUCTS = 3  # a stem's convolution reaches a third of that rate
NODE_US = 1.4  # µs of a nearly empty kernel in a CUDA graph
FUSED_TIME_SCALE = 0.7  # empirical correction of the predicted fused time; with it most decisions match an H200's


class Spent(NamedTuple):
    """The cost of a slice for a warp: instructions issued, wavefronts of shared memory, cycles of the tensor cores."""

    issue: float = 0.0
    shared: float = 0.0
    tensor: float = 0.0


def _expansion(g: Geometry) -> Spent:
    block, tile, itemsize = g.block, g.tile, g.itemsize
    if block.expand == "none":
        return Spent()
    k_steps, rows = g.k_padded * itemsize // 32, ceil_div(ceil_div(g.pixels_in, 16), tile.pixel_warps)
    if g.slides:
        return _sliding(g)
    if tile.chained:  # each plane reads x, once for each column of taps
        rows = 3 * _strips(g) * ((tile.strip - 1) * block.stride + 3)
        products = 2 * rows * k_steps
        return Spent(
            products + rows * (k_steps + CHAINED_EPILOGUE), FRAGMENT_WAVEFRONTS * rows * k_steps,
            products * MMA_CYCLES[itemsize],
        )  # fmt: skip
    products = rows * k_steps * g.planes * 2 * TF32_PRODUCTS[itemsize]
    in_registers = k_steps * g.planes * (2 if itemsize == 4 else 1) <= WEIGHTS_IN_REGISTERS
    fragments = rows * k_steps + (0 if in_registers else ceil_div(rows, tile.expand_m) * k_steps * g.planes)
    return Spent(
        products + fragments * FRAGMENT_ISSUE[itemsize] + rows * (EXPAND_ISSUE + EXPAND_EPILOGUE[itemsize] * g.planes),
        FRAGMENT_WAVEFRONTS * fragments + rows * g.planes * EXPAND_WAVEFRONTS[itemsize],
        products * MMA_CYCLES[itemsize],
    )


def _sliding(g: Geometry) -> Spent:
    """Expand and the depthwise convolution together."""
    tile, itemsize, stride = g.tile, g.itemsize, g.block.stride
    of = itemsize, stride
    items = tile.images * (tile.tile_h // tile.strip) * ceil_div(tile.tile_w, SEGMENT[stride])
    passes = g.planes * ceil_div(items, tile.pixel_warps)
    steps, products = g.k_padded // 16, (3 if itemsize == 4 else 1)  # of floats, by halves
    rows, outputs = passes * ((tile.strip - 1) * stride + 3), passes * tile.strip
    fragments = steps * (2 if itemsize == 4 else 1)  # of x; as many pairs of weights, if they are not held
    if 4 * fragments > SLIDING_HELD[itemsize]:
        fragments *= 2
    return Spent(
        rows * (2 * steps * products + fragments + SLIDING_ROW_ISSUE[of]) + outputs * SLIDING_OUTPUT_ISSUE[of],
        rows * (FRAGMENT_WAVEFRONTS * fragments + SLIDING_ROW_WAVEFRONTS[of]) + outputs * SLIDING_OUTPUT_WAVEFRONTS[of],
        rows * 2 * steps * products * MMA_CYCLES[2] + outputs * SLIDING_OUTPUT_TENSOR[itemsize],
    )


def _strips(g: Geometry) -> int:
    """Passes of a warp over the columns of the depthwise convolution, in a slice."""
    tile = g.tile
    positions = tile.images * tile.tile_w * (tile.tile_h // tile.strip)
    return ceil_div(g.planes * ceil_div(positions, 2 * tile.vector or 16), tile.pixel_warps)


def _depthwise(g: Geometry) -> Spent:
    if g.slides:
        return Spent()  # _sliding has it
    tile, stride, itemsize = g.tile, g.block.stride, g.itemsize
    strips, rows_in = _strips(g), (tile.strip - 1) * stride + 3
    if tile.vector:
        convert = 0 if itemsize == 4 else tile.vector  # half to float
        rows = tile.strip * (TAPS_ISSUE * tile.vector + STRIP_ROW_ISSUE)
        return Spent(
            strips * (3 * rows_in * (1 + convert) + rows + STRIP_ISSUE + STRIP_CHANNEL_ISSUE * tile.vector),
            strips * ((3 * rows_in + tile.strip) * tile.vector * itemsize / 4 + STRIP_CHANNEL_WAVEFRONTS * tile.vector),
        )
    if tile.chained:  # in registers already
        rows_in = 0
    return Spent(
        strips * (3 * rows_in + BANDED_ROW_ISSUE * tile.strip + BANDED_ISSUE),
        strips * (BANDED_INPUT_WAVEFRONTS * rows_in * stride + BANDED_ROW_WAVEFRONTS * tile.strip + BANDED_WAVEFRONTS),
        strips * tile.strip * TAPS * MMA_CYCLES[2],
    )


def _projection(g: Geometry) -> Spent:
    tile, itemsize = g.tile, g.itemsize
    rows, columns = _outputs_of_warp(g, tile.project_n)
    steps = tile.slice * itemsize // 32
    products = steps * rows * columns * 2
    return Spent(
        products * TF32_PRODUCTS[itemsize] + steps * (rows + columns) * FRAGMENT_ISSUE[itemsize],
        steps * (rows + columns) * FRAGMENT_WAVEFRONTS,
        products * MMA_CYCLES[itemsize],
    )


def _outputs_of_warp(g: Geometry, project_n: int) -> tuple[int, int]:
    """(tiles of 16 pixels, tiles of 16 output channels) whose sums a warp holds in registers."""
    return ceil_div(ceil_div(g.pixels_out, 16), g.tile.warps // project_n), ceil_div(g.o_padded // 16, project_n)


def resident_blocks(g: Geometry, shared_memory: int, most: int) -> int:
    """Thread blocks resident on a multiprocessor, limited by shared memory, warps and `most`."""
    return min((shared_memory + SHARED_RESERVED) // (g.shared + SHARED_RESERVED), WARPS_RESIDENT // g.tile.warps, most)


def predicted(block: Block, tile: Tile, itemsize: int, batch: int, multiprocessors: int, shared_memory: int) -> float:
    """Predicted microseconds of a fused block's launch; for ranking tiles."""
    return predicted_of(Geometry(block, tile, itemsize), batch, multiprocessors, shared_memory, tile.blocks)


def predicted_of(g: Geometry, batch: int, multiprocessors: int, shared_memory: int, blocks: int) -> float:
    """As `predicted`, with `blocks` resident thread blocks per multiprocessor instead of tile.blocks."""
    if g.warpgroups is not None:
        return _predicted_of_warpgroups(g, batch, multiprocessors)
    if g.alone is not None:
        return _predicted_of_single_warps(g, batch, multiprocessors, blocks)
    if g.rows is not None:
        return _predicted_of_rows(g, batch, multiprocessors)
    block, tile, itemsize = g.block, g.tile, g.itemsize
    keeps_weights = tile.persistent and g.resident
    parts = _expansion(g), _depthwise(g), _projection(g)
    issue, shared, tensor = (sum(part[i] for part in parts) for i in range(3))
    issue += 0 if keeps_weights else g.stage_bytes / 16 / (32 * tile.warps) * COPY_ISSUE
    warp_slices = tile.warps * g.slices
    once = tile.warps * (SUMS_ISSUE * math.prod(_outputs_of_warp(g, tile.project_n)) + TILE_ISSUE)
    at_once = max(1, resident_blocks(g, shared_memory, blocks))
    launched = ceil_div(batch, tile.images) * g.tiles * tile.split
    resident = min(launched, at_once * multiprocessors)
    sharing = max(1.0, min(at_once, launched / multiprocessors))  # thread blocks that share a multiprocessor
    weights = g.stage_bytes * g.slices * (resident / launched if keeps_weights else 1.0)
    inputs = g.x_bytes or g.hidden_bytes * g.slices
    l2_cycles = (weights + inputs + 2 * g.pixels_out * g.o_padded * itemsize) / L2_BYTES
    input_issue = inputs / 16 * INPUT_ISSUE / 32 * (STEM_INPUT_FACTOR if block.expand == "stem" else 1)
    efficiency = min(ISSUE_PEAK, ISSUE_BASE + ISSUE_PER_WARP * sharing * tile.warps)
    busy = max(
        (warp_slices * issue + once + input_issue) / SCHEDULERS / efficiency,
        warp_slices * shared / SHARED_PEAK,
        warp_slices * tensor / TENSOR_PEAK,
        l2_cycles,
    )
    waiting = LATENCY + 2 * BARRIER * g.slices + (CLUSTER if tile.split > 1 else 0)
    cycles = max(busy * sharing, busy + waiting)
    waves = launched / resident if tile.persistent else ceil_div(launched, resident)
    return (waves * cycles + START) / CLOCK_GHZ / 1000


def _predicted_of_warpgroups(g: Geometry, batch: int, multiprocessors: int) -> float:
    assert g.warpgroups is not None
    sizes, tile = g.warpgroups, g.tile
    rows = ceil_div(sizes.items, tile.warps) * ((tile.strip - 1) * g.block.stride + 3)
    a_slice = sizes.wavefronts + WARPGROUP_ROW * rows
    a_tile = WARPGROUP_TILE + ceil_div(sizes.slices, tile.split) * a_slice + (CLUSTER if tile.split > 1 else 0)
    launched = ceil_div(batch, tile.images) * g.tiles * tile.split
    return (ceil_div(launched, multiprocessors) * a_tile + START) / CLOCK_GHZ / 1000


def _predicted_of_single_warps(g: Geometry, batch: int, multiprocessors: int, blocks: int) -> float:
    assert g.alone is not None
    block, tile, stride, rows, size = g.block, g.tile, g.block.stride, g.alone.rows, g.itemsize
    if g.alone.stem:
        issue = rows * ALONE_STEM_ROW + ALONE_ITEM[size]
    else:
        a_row = ALONE_ROW[size] + stride * (ALONE_STEP[size] + ALONE_FRAGMENT[size] * ceil_div(block.channels, 16))
        an_output = ALONE_OUTPUT[size] + ALONE_EIGHT[size] * (block.outputs // 8)
        plane = rows * a_row + tile.strip * an_output + ALONE_PLANE[size]
        issue = ceil_div(block.hidden // 16, g.alone.parts) * plane
        issue += tile.strip * ALONE_STORED[size] + ALONE_ITEM[size]
        if g.alone.parts > 1:
            issue += ALONE_ADDED[size] * tile.strip * block.outputs // 8 + ALONE_MEETING
    launched, at_a_time = batch * g.alone.items, tile.pixel_warps
    at_once = min(blocks, ceil_div(launched, multiprocessors * at_a_time))  # thread blocks of a multiprocessor
    sharing = ceil_div(min(tile.warps * at_once, launched * g.alone.parts), SCHEDULERS)
    an_item = issue * max(ALONE_CYCLES[size], ALONE_SHARED_CYCLES[size] * sharing)
    weights = 4 * alone_size(block, size, tile.streams) * at_once / L2_BYTES
    # weights are on their way before the kernel in front has ended: no START
    cycles = ceil_div(launched, at_a_time * at_once * multiprocessors) * an_item + LATENCY + weights
    return cycles / CLOCK_GHZ / 1000


def _predicted_of_rows(g: Geometry, batch: int, multiprocessors: int) -> float:
    assert g.rows is not None
    block, tile, sizes = g.block, g.tile, g.rows
    pairs, steps = block.outputs // 16, sizes.rows_in * block.stride
    working = ceil_div(sizes.eights, sizes.at_a_time)
    busy = min(tile.warps, pairs * (tile.tile_h // tile.strip))
    an_eight = steps * (block.channels // 16) + ROWS_TAPS * tile.tile_h
    hidden = ceil_div(working, SCHEDULERS) * sizes.at_a_time * an_eight
    projected = ceil_div(busy, SCHEDULERS) * sizes.passes * tile.strip * (tile.slice // 16) * 2
    a_slice = ROWS_SLICE + ROWS_STEP * steps + ROWS_HIDDEN * hidden + ROWS_PROJECT * projected
    letters = (tile.split - 1) * ceil_div(tile.tile_h * pairs, tile.split) * tile.images * block.out_size[1]
    tiles, clusters = ceil_div(batch, tile.images) * g.tiles, max(1, multiprocessors // tile.split)
    weights = 16 * sizes.parts * (sizes.of_hidden + sizes.of_project) * min(tiles, clusters) * tile.split
    a_tile = ROWS_TILE + sizes.parts * a_slice + ROWS_LETTER * letters
    cycles = ROWS_LAUNCH + ceil_div(tiles, clusters) * a_tile + ROWS_WEIGHTS * weights / multiprocessors
    return cycles / CLOCK_GHZ / 1000


def separate(block: Block, batch: int, itemsize: int, multiprocessors: int) -> float:
    """Predicted microseconds of the separate kernels: a roofline model, each bound by memory or by arithmetic."""
    hidden, convolved = (block.hidden * n for n in (block.height * block.width, math.prod(block.out_size)))
    inputs, outputs = math.prod(block.input_shape), block.outputs * math.prod(block.out_size)
    taps = {"none": 0, "pointwise": block.channels, "stem": 9 * block.channels}[block.expand]
    products = SEPARATE_PRODUCTS_PER_US[itemsize]
    kernels = [  # activations per image, parameters, multiply-accumulates per image, and their rate per µs
        (hidden + convolved, 9 * block.hidden, 9 * convolved, SEPARATE_TAPS_PER_US),
        (
            convolved + outputs * (2 if block.residual else 1), block.hidden * block.outputs,
            convolved * block.outputs, products,
        ),
    ]  # fmt: skip
    if taps:
        rate = products / (STEM_PRODUCTS if block.expand == "stem" else 1)
        kernels.append((inputs + hidden, taps * block.hidden, hidden * taps, rate))
    return sum(
        NODE_US
        + max(itemsize * (batch * moved + parameters) / SEPARATE_BYTES_PER_US, batch * macs / rate) / multiprocessors
        for moved, parameters, macs, rate in kernels
    )


def worth_it(block: Block, tile: Tile, batch: int, itemsize: int, multiprocessors: int, shared_memory: int) -> bool:
    """Whether a fused block is predicted to be faster than separate kernels.

    Notebook 8 of chapter 06 compares the answers with those of a search on an H200, and lists the wrong ones.
    """
    fused = predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)
    return FUSED_TIME_SCALE * fused < separate(block, batch, itemsize, multiprocessors)


# ---- The candidates


def candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool
) -> Iterator[Tile]:
    """All tiles that fit and may be fast. clusters: whether a cluster may split the hidden channels (sm_90)."""
    out_h, out_w = block.out_size
    heights = sorted({*(h for h in (1, 2, 4, 7, 8, 14, 16) if h <= out_h), min(out_h, 8)})
    widths = sorted({*(w for w in (4, 7, 8, 14, 16, 28) if w <= out_w), min(out_w, 8)})
    for h, w, images in itertools.product(heights, widths, (1, 2, 4)):
        if images > 1 and (batch < images or (h, w) != (out_h, out_w)):
            continue
        if not min(4 if batch == 1 else 16, out_h * out_w) <= images * h * w <= 256 or (h > w and w < out_w):
            continue
        tiles = ceil_div(batch, images) * ceil_div(out_h, h) * ceil_div(out_w, w)
        splits = (1, 2, 3, 4, 6, 8) if clusters and images == 1 and tiles < multiprocessors else (1,)
        for split, wc, planes, wp in itertools.product(splits, range(1, 17), (1, 2, 3, 4), range(1, 9)):
            channels, warps = 16 * planes * wc, wc * wp
            per = ceil_div(block.hidden, channels * split)
            if not 2 <= warps <= 16 or channels > 256 or per * channels * split > 1.2 * block.hidden + 15:
                continue
            if split > 1 and tiles * split > 1.3 * multiprocessors:
                continue
            strips = {n for n in (1, 2, 4, 7, 8, 14) if h % n == 0}
            if batch > 1:
                strips = set(sorted(strips)[-3 if 14 in strips else -2 :])
            for stages, strip in itertools.product({2, 3, per}, strips):
                if (stages > per) or (stages == per and per > 6) or (stages == 1 and per > 1):
                    continue
                tile = Tile(h, w, images, channels, split, strip, 2, stages, warps, wp)
                g = Geometry(block, tile, itemsize)
                if g.shared > shared_memory or wp > ceil_div(g.pixels_in, 16):
                    continue
                at_once = resident_blocks(g, shared_memory, WARPS_RESIDENT)
                ways = _ways(g)
                for blocks in sorted({min(n, at_once) for n in (1, 2, 3, 4, 6, 8)}):
                    if blocks > 1 and tiles * split < multiprocessors * (blocks - 1):
                        continue
                    if batch > 1 and blocks * warps < min(12, at_once * warps):
                        continue
                    best = _within(ways, tile, blocks)
                    if best is None or Geometry(block, best, itemsize).problem(shared_memory):
                        continue
                    if split == 1 and tiles > 2 * blocks * multiprocessors:
                        best = dataclasses.replace(best, persistent=blocks)
                    yield best


def chained_candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool
) -> Iterator[Tile]:
    """All chained tiles that fit and may be fast; `candidates` has none. Arguments as of `candidates`."""
    stride = block.stride
    if block.bounds[0][0] != 0 or block.expand not in (("pointwise", "stem") if stride == 1 else ("pointwise",)):
        return
    out_h, out_w = block.out_size
    segment = SEGMENT[stride]
    heights = [h for h in (1, 2, 4, 7, 8, 14, 16, 28) if h <= out_h]
    widths = [n * segment for n in (1, 2, 4) if n * segment <= out_w] or [out_w]
    if stride == 2 and itemsize == 2:  # 16 columns of any strips at a time
        widths = [w for w in (4, 7, 8, 14, 16, 28) if w <= out_w]
    for h, w, images in itertools.product(heights, widths, (1, 2, 4)):
        if (images > 1 and (batch < images or (h, w) != (out_h, out_w))) or not 14 <= images * h * w <= 448:
            continue
        tiles = ceil_div(batch, images) * ceil_div(out_h, h) * ceil_div(out_w, w)
        splits = (1, 2, 3, 4, 6, 8) if clusters and images == 1 and tiles < multiprocessors else (1,)
        strips = [n for n in (1, 2, 4, 7, 8, 14) if h % n == 0][-2:]
        for split, wc, planes, wp, strip in itertools.product(
            splits, (1, 2, 3, 4, 5, 6, 8), (1, 2, 3), (1, 2, 3, 4, 7, 8), strips
        ):
            channels, warps = 16 * planes * wc, wc * wp
            per = ceil_div(block.hidden, channels * split)
            if not 2 <= warps <= 16 or channels > 256 or per * channels * split > 1.2 * block.hidden + 15:
                continue
            if wp > images * (h // strip) * ceil_div(w, segment) or (
                split > 1 and tiles * split > 1.3 * multiprocessors
            ):
                continue
            for stages, project_n in itertools.product({2, 3, per}, (1, 2, 3, 4)):
                if (stages > per) or (stages == per and per > 6) or (stages == 1 and per > 1) or warps % project_n:
                    continue
                vector = 0 if itemsize == 2 else 4
                tile = Tile(
                    h, w, images, channels, split, strip, vector, stages, warps, wp, project_n=project_n, chained=True
                )  # fmt: skip
                g = Geometry(block, tile, itemsize)
                if g.shared > shared_memory or project_n > g.o_padded // 16:
                    continue
                rows, columns = _outputs_of_warp(g, project_n)
                held = min(SLIDING_HELD[itemsize], g.k_padded // 16 * (8 if itemsize == 4 else 4))
                late = itemsize == 2 and per == 1 and (block.adds_input or not block.residual)
                sums = 4 * columns if late else 8 * rows * columns
                registers = SLIDING_REGISTERS[itemsize] + sums + held
                at_once = resident_blocks(g, shared_memory, REGISTERS // (32 * warps * min(255, registers)))
                if not at_once or registers > 255 or g.problem(shared_memory):
                    continue
                for blocks in {at_once, max(1, at_once - 1)}:
                    held = blocks if split == 1 and tiles > 2 * blocks * multiprocessors else 0
                    yield dataclasses.replace(tile, blocks=blocks, persistent=held)


def warpgroup_candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool
) -> Iterator[Tile]:
    """All tiles with warpgroups that fit and may be fast; none of them for a cluster. Arguments as of `candidates`."""
    out_h, out_w = block.out_size
    if itemsize != 2 or not clusters or batch < WARPGROUP_BATCH or out_h * out_w > WARPGROUP_OUTPUTS:
        return
    for groups, h, images in itertools.product(WARPGROUPS, sorted({min(7, out_h), out_h}), (1, 2)):
        for strip in (n for n in (1, 2, 4, 7) if n <= h):
            tile = Tile(h, out_w, images, strip=strip, warps=4 * groups, warpgroups=groups)
            if Geometry(block, tile, itemsize).problem(shared_memory) is None:
                yield tile


def alone_candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool, arithmetic: str
) -> Iterator[Tile]:
    """All tiles of single warps that fit and may be fast; of floats with "halves" alone. Arguments as of `ranked`."""
    if itemsize == 4 and arithmetic != "halves":
        return
    stem = block.expand == "stem"
    shapes = itertools.product(ALONE_STEM_STRIPS if stem else ALONE_STRIPS, (1, 2, 4, 8), (1, 2), (1, 2, 3, 4, 6, 9))
    for strip, items, blocks, parts in shapes:
        warps = items * parts
        if not 3 <= warps * blocks <= 12 or (parts > 1 and (stem or batch > ALONE_SHARED_BATCH)):
            continue
        streaming = (False, True) if itemsize == 2 and not stem and batch <= ALONE_SHARED_BATCH else (False,)
        for stages, streams in itertools.product((1,) if stem else ALONE_BUFFERS, streaming):
            tile = Tile(
                strip, ALONE_COLUMNS, 1, 16, 1, strip, 0, stages, warps, items, blocks=blocks, persistent=blocks,
                arithmetic="halves" if itemsize == 4 else "tf32x3", alone=True, streams=streams,
            )  # fmt: skip
            g = Geometry(block, tile, itemsize)
            if g.problem(shared_memory) or resident_blocks(g, shared_memory, blocks) < blocks:
                continue
            if batch * g.tiles > (blocks - 1) * multiprocessors * items:
                yield tile


def rows_candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool
) -> Iterator[Tile]:
    """All tiles of rows that fit and may be fast. Arguments as of `candidates`."""
    out_h, out_w = block.out_size
    if itemsize != 2 or not clusters or batch > ROWS_BATCH or block.expand != "pointwise" or out_w > ROWS_COLUMNS[1]:
        return
    images = 2 if out_w <= ROWS_COLUMNS[2] and batch > 1 else 1
    shapes = itertools.product((1, 2, 4), (1, 2, 4), range(1, 9), (8, 10, 12), (1, 2, 3, 4))
    for h, near, split, warps, parts in shapes:
        launched = ceil_div(batch, images) * ceil_div(out_h, h) * split
        channels, rest = divmod(block.hidden, split * parts)
        if h > out_h or rest or not multiprocessors // 6 <= launched <= 2 * multiprocessors:
            continue
        for stages in range(parts, 0, -1):
            tile = Tile(h, out_w, images, channels, split, near, 0, stages, warps, persistent=1, rows=True)
            if Geometry(block, tile, itemsize).problem(shared_memory) is None:
                yield tile
                break


class _Way(NamedTuple):
    """One choice of project_n, expand_m and vector for a tile: its cost, and the registers per thread."""

    cost: float
    registers: float
    project_n: int
    expand_m: int
    vector: int


def within_registers(block: Block, tile: Tile, itemsize: int) -> Tile | None:
    """The tile with the cheapest vector, expand_m and project_n that need no register spill; None if there are none."""
    return _within(_ways(Geometry(block, tile, itemsize)), tile, tile.blocks)


def _within(ways: Sequence[_Way], tile: Tile, blocks: int) -> Tile | None:
    """The tile in the cheapest of `ways` whose registers allow `blocks` resident thread blocks; None if none does."""
    limit = min(255, REGISTERS // (32 * tile.warps * blocks) // 8 * 8)  # allocated in multiples of 8
    best = min((way for way in ways if way.registers <= limit), key=lambda way: way.cost, default=None)
    if best is None:
        return None
    return dataclasses.replace(
        tile, blocks=blocks, project_n=best.project_n, expand_m=best.expand_m, vector=best.vector
    )


def _ways(g: Geometry) -> list[_Way]:
    """All choices of project_n, expand_m and vector for a tile; its own values of them are ignored."""
    tile, itemsize = g.tile, g.itemsize
    twice = 2 if itemsize == 4 else 1
    k_steps = g.k_padded * itemsize // 32
    in_registers = k_steps * g.planes * twice <= WEIGHTS_IN_REGISTERS
    weights = 4 * g.planes * twice * (k_steps if in_registers else 1)
    vectors = (2, 4) if itemsize == 4 else (0, 2, 4) if g.pixels_out <= 32 else (0,)
    positions = tile.images * tile.tile_w * (tile.tile_h // tile.strip)
    ways = []
    for project_n in (n for n in range(1, tile.warps + 1) if tile.warps % n == 0):
        if project_n > g.o_padded // 16:
            break
        rows3, columns3 = _outputs_of_warp(g, project_n)
        sums = 8 * rows3 * columns3
        for expand_m, vector in itertools.product((1, 2, 3), vectors):
            if vector and 2 * vector > 2 * positions:
                continue
            if expand_m > 1 and expand_m * tile.pixel_warps >= 2 * ceil_div(g.pixels_in, 16):
                continue
            if itemsize == 2:  # registers without spilling, fitted to nvcc on 69 tiles, ± 15
                needed = 28.0 + sums + weights + 12 * expand_m * g.planes
                needed += 2 * (rows3 + columns3) + (0 if vector else 7)
            else:
                expand = sums + weights + 16 * expand_m * g.planes + 8 * g.planes + 32
                needed = max(expand, sums + 13 * vector + 24, 2 * sums + 8 * (columns3 + 1) + 20) / 1.1
            rounds = ceil_div(g.planes * ceil_div(positions, 2 * vector or 16), tile.pixel_warps)
            of_round = BANDED_ROW_ISSUE * tile.strip + BANDED_ISSUE
            if vector:
                of_round = tile.strip * (14 + 5 * (itemsize == 2)) * vector + STRIP_ISSUE + STRIP_CHANNEL_ISSUE * vector
            cost = rows3 * columns3 * (2 + 2.0 / rows3 + 2.0 / columns3) * tile.slice * tile.warps
            rows = ceil_div(g.pixels_in, 16 * expand_m * tile.pixel_warps) * tile.pixel_warps * expand_m
            cost += rows * (2 + 2.0 / expand_m) * g.k_padded * tile.slice / 16
            cost += rounds * of_round * tile.warps * SCHEDULERS
            ways.append(_Way(cost, needed, project_n, expand_m, vector))
    return ways


def ranked(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool = True,
    arithmetic: str = "tf32x3",
) -> list[Tile]:  # fmt: skip
    """The candidates, sorted by predicted time, the shortest first.

    arithmetic: what floats are multiplied with, as of Tile; tiles that are for either have "tf32x3". Other arguments as
    of `candidates`.
    """

    def key(tile: Tile) -> float:
        return predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)

    card = multiprocessors, shared_memory, clusters
    kinds = candidates, chained_candidates, warpgroup_candidates, rows_candidates
    every = itertools.chain(*(of(block, batch, itemsize, *card) for of in kinds))
    return sorted([*every, *alone_candidates(block, batch, itemsize, *card, arithmetic)], key=key)


def shortlist(tiles: Sequence[Tile], count: int) -> list[Tile]:
    """At most `count` tiles of a ranking: of each (tile_h, tile_w, images, split) the best two with other warps.

    Tiles with warpgroups, of single warps and of rows are looked at apart.
    """
    seen: dict[tuple, set] = {}
    picked = []
    for tile in tiles:
        kind = tile.kind, tile.streams
        others = seen.setdefault((tile.tile_h, tile.tile_w, tile.images, tile.split, kind), set())
        if len(others) < 2 and (tile.slice, tile.warps) not in others:
            others.add((tile.slice, tile.warps))
            picked.append(tile)
        if len(picked) == count:
            break
    return picked
