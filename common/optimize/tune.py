"""What a tile costs, which tiles there are, and what it takes to measure them: what search.py is made of.

    predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)      µs, by counting what is spent
    ranked(block, batch, itemsize, multiprocessors, shared_memory)               all candidates, the cheapest first
    worth_it(block, tile, batch, …)                                              whether separate kernels seem dearer
    compile_all(jobs)                                                            side by side, into the cache

Counts rank candidates well; as times they may be off by a factor of two: only the most promising are timed.
"""

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from .generate import Block, Geometry, Tile, ceil_div

TRIED = 12  # candidates that a search measures

L2_BYTES = 40.0  # that a multiprocessor gets out of the L2 in a cycle
LATENCY = 900.0  # cycles from the first request of a tile to the arrival of the last
START = 1500.0  # cycles of a launch that has nothing to do
CLUSTER = 1300.0  # cycles to add up the sums of a cluster
BARRIER = 60.0
CLOCK_GHZ = 1.75


def predicted(block: Block, tile: Tile, itemsize: int, batch: int, multiprocessors: int, shared_memory: int) -> float:
    """Microseconds of a launch, from counted instructions and bytes: good for ranking tiles, not for more."""
    g = Geometry(block, tile, itemsize)
    fp32 = itemsize == 4
    planes, k_steps = g.planes, g.k_padded * itemsize // 32
    wp = tile.pixel_warps
    m_in, m_out = ceil_div(ceil_div(g.pixels_in, 16), wp), ceil_div(g.pixels_out, 16)  # m_in: of a warp
    held = k_steps * planes * (2 if fp32 else 1) <= 12
    # of a warp and slice: instructions, wavefronts of shared memory, cycles of the tensor cores
    issue = shared = tensor = 0.0
    if block.expand != "none":
        mma = m_in * k_steps * planes * 2 * (3 if fp32 else 1)
        b_loads = 0 if held else ceil_div(m_in, tile.expand_m) * k_steps * planes
        issue += mma + (m_in * k_steps + b_loads) * (13 if fp32 else 1) + m_in * (14 + (30 if fp32 else 12) * planes)
        shared += 4 * (m_in * k_steps + b_loads) + m_in * planes * (8 if fp32 else 4)
        tensor += mma * (2.1 if fp32 else 1.6)
    columns, rows_in = tile.images * tile.tile_w * (tile.tile_h // tile.strip), (tile.strip - 1) * block.stride + 3
    items = ceil_div(planes * ceil_div(columns, 2 * tile.vector or 16), wp)  # of a warp
    if tile.vector:
        convert = 0 if fp32 else tile.vector
        issue += items * (3 * rows_in * (1 + convert) + tile.strip * (12 * tile.vector + 2) + 24 + 20 * tile.vector)
        shared += items * ((3 * rows_in + tile.strip) * tile.vector * itemsize / 4 + 10 * tile.vector)
    else:
        issue += items * (3 * rows_in + 24 * tile.strip + 85)
        shared += items * (12 * rows_in * block.stride + 4 * tile.strip + 20)
        tensor += items * tile.strip * 9 * 1.6
    m3, pairs3 = ceil_div(m_out, tile.warps // tile.project_n), ceil_div(g.o_padded // 16, tile.project_n)
    steps = tile.slice * itemsize // 32
    issue += steps * (m3 * pairs3 * 2 * (3 if fp32 else 1) + (m3 + pairs3) * (13 if fp32 else 1))
    shared += steps * (m3 + pairs3) * 4
    tensor += steps * m3 * pairs3 * 2 * (3 * 2.1 / 3 if fp32 else 1.6)
    issue += 0 if tile.persistent and g.resident else g.stage_bytes / 16 / (32 * tile.warps) * 24
    work = tile.warps * g.slices
    once = tile.warps * (30 * m3 * pairs3 + 150)  # of a tile: where it lies, what its sums begin with, its outputs
    at_once = max(1, min((shared_memory + 1024) // (g.shared + 1024), 64 // tile.warps, tile.blocks))
    launched = ceil_div(batch, tile.images) * g.tiles * tile.split
    resident = min(launched, at_once * multiprocessors)
    beside = max(1.0, min(at_once, launched / multiprocessors))  # thread blocks that share a multiprocessor
    weights = g.stage_bytes * g.slices * (resident / launched if tile.persistent and g.resident else 1.0)
    traffic = (weights + (g.x_bytes or g.hidden_bytes * g.slices) + 2 * g.pixels_out * g.o_padded * itemsize) / L2_BYTES
    x_issue = (g.x_bytes or g.hidden_bytes * g.slices) / 16 * 20 / 32 * (1.5 if block.expand == "stem" else 1)
    efficiency = min(0.8, 0.06 + 0.037 * beside * tile.warps)
    busy = max((work * issue + once + x_issue) / 4 / efficiency, work * shared / 0.85, work * tensor / 0.8, traffic)
    waiting = LATENCY + 2 * BARRIER * g.slices + (CLUSTER if tile.split > 1 else 0)
    of_one = max(busy * beside, busy + waiting)
    waves = launched / resident if tile.persistent else ceil_div(launched, resident)
    return (waves * of_one + START) / CLOCK_GHZ / 1000


BANDWIDTH = 23.5e3  # bytes a multiprocessor and µs, of kernels that do nothing else: 3.1 TB/s on 132 of them
PRODUCTS = {2: 1.14e6, 4: 0.3e6}  # multiply-accumulates of 1×1 convolutions on tensor cores, likewise
TAPS = 91e3  # multiply-accumulates of depthwise convolutions, likewise
NODE_US = 1.4  # a kernel that has little to do
COUNTED = 0.7  # of the time predicted for a fused block: how an H200 decided best, see worth_it


def separate(block: Block, batch: int, itemsize: int, multiprocessors: int) -> float:
    """Microseconds of the separate kernels, roughly: each is bound by memory or by arithmetic."""
    hidden, convolved = (block.hidden * n for n in (block.height * block.width, math.prod(block.out_size)))
    inputs, outputs = math.prod(block.input_shape), block.outputs * math.prod(block.out_size)
    taps = {"none": 0, "pointwise": block.channels, "stem": 9 * block.channels}[block.expand]
    products = PRODUCTS[itemsize]
    kernels = [  # activations of an image, parameters, multiply-accumulates of an image and how many there are in a µs
        (hidden + convolved, 9 * block.hidden, 9 * convolved, TAPS),
        (
            convolved + outputs * (2 if block.residual else 1),
            block.hidden * block.outputs,
            convolved * block.outputs,
            products,
        ),
    ]
    if taps:
        kernels.append(
            (inputs + hidden, taps * block.hidden, hidden * taps, products / (3 if block.expand == "stem" else 1))
        )
    return sum(
        NODE_US + max(itemsize * (batch * moved + parameters) / BANDWIDTH, batch * macs / rate) / multiprocessors
        for moved, parameters, macs, rate in kernels
    )


def worth_it(block: Block, tile: Tile, batch: int, itemsize: int, multiprocessors: int, shared_memory: int) -> bool:
    """Whether a fused block is likely to be faster than separate kernels.

    As a search on an H200 found it for 89 of 96 blocks, batches and dtypes. It misses gains of 2, 8, 9 and 38 %, and
    fuses where that takes 2, 5 and 20 % longer.
    """
    fused = predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)
    return COUNTED * fused < separate(block, batch, itemsize, multiprocessors)


def candidates(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool
) -> Iterator[Tile]:
    """All tiles that are possible and not plainly foolish."""
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
        for split, wc, planes, wp in itertools.product(splits, range(1, 17), (1, 2, 3, 4), (1, 2, 4, 8)):
            channels, warps = 16 * planes * wc, wc * wp
            per = ceil_div(block.hidden, channels * split)
            if not 2 <= warps <= 16 or channels > 256 or per * channels * split > 1.2 * block.hidden + 15:
                continue
            if split > 1 and tiles * split > 1.3 * multiprocessors:
                continue
            strips = {n for n in (1, 2, 4, 7, 8) if h % n == 0}
            if batch > 1:
                strips = set(sorted(strips)[-2:])
            for stages, strip in itertools.product({2, 3, per}, strips):
                if (stages > per) or (stages == per and per > 6) or (stages == 1 and per > 1):
                    continue
                tile = Tile(h, w, images, channels, split, strip, 2, stages, warps, wp)
                g = Geometry(block, tile, itemsize)
                if g.shared > shared_memory or wp > ceil_div(g.pixels_in, 16):
                    continue
                at_once = min((shared_memory + 1024) // (g.shared + 1024), 64 // warps)
                for blocks in sorted({min(n, at_once) for n in (1, 2, 3, 4, 6, 8)}):
                    if blocks > 1 and tiles * split < multiprocessors * (blocks - 1):
                        continue
                    if batch > 1 and blocks * warps < min(12, at_once * warps):
                        continue
                    best = within_registers(block, dataclasses.replace(tile, blocks=blocks), itemsize)
                    if best is None or Geometry(block, best, itemsize).problem(shared_memory):
                        continue
                    if split == 1 and tiles > 2 * blocks * multiprocessors:
                        best = dataclasses.replace(best, persistent=blocks)
                    yield best


def within_registers(block: Block, tile: Tile, itemsize: int) -> Tile | None:
    """vector, expand_m and project_n: what computes least for nothing and fits into the registers of a thread."""
    limit = min(255, 65536 // (32 * tile.warps * tile.blocks) // 8 * 8)
    twice = 2 if itemsize == 4 else 1
    options = []
    for project_n in (n for n in range(1, tile.warps + 1) if tile.warps % n == 0):
        one = dataclasses.replace(tile, project_n=project_n)
        g = Geometry(block, one, itemsize)
        if project_n > g.o_padded // 16:
            break
        m3, pairs3 = (
            ceil_div(ceil_div(g.pixels_out, 16), tile.warps // project_n),
            ceil_div(g.o_padded // 16, project_n),
        )
        k_steps = g.k_padded * itemsize // 32
        weights = 4 * k_steps * g.planes * twice if k_steps * g.planes * twice <= 12 else 4 * g.planes * twice
        vectors = (2, 4) if itemsize == 4 else (0, 2, 4) if g.pixels_out <= 32 else (0,)
        for expand_m, vector in itertools.product((1, 2, 3), vectors):
            if vector and 2 * vector > 2 * tile.images * tile.tile_w * (tile.tile_h // tile.strip):
                continue
            if expand_m > 1 and expand_m * tile.pixel_warps >= 2 * ceil_div(g.pixels_in, 16):
                continue
            if itemsize == 2:  # as nvcc needs them without spilling: fitted to 69 tiles, give or take 15
                needed = 28.0 + g.sums + weights + 12 * expand_m * g.planes + 2 * (m3 + pairs3) + (0 if vector else 7)
            else:
                expand = g.sums + weights + 16 * expand_m * g.planes + 8 * g.planes + 32
                needed = max(expand, g.sums + 13 * vector + 24, 2 * g.sums + 8 * (pairs3 + 1) + 20) / 1.1
            if needed > limit:
                continue
            positions, lanes = tile.images * tile.tile_w * (tile.tile_h // tile.strip), 2 * vector or 16
            rounds = ceil_div(g.planes * ceil_div(positions, lanes), tile.pixel_warps)
            of_round = 24 * tile.strip + 85
            if vector:
                of_round = tile.strip * (14 + 5 * (itemsize == 2)) * vector + 24 + 20 * vector
            cost = m3 * pairs3 * (2 + 2.0 / m3 + 2.0 / pairs3) * tile.slice * tile.warps
            rows = ceil_div(g.pixels_in, 16 * expand_m * tile.pixel_warps) * tile.pixel_warps * expand_m
            cost += rows * (2 + 2.0 / expand_m) * g.k_padded * tile.slice / 16
            convolving = rounds * of_round
            cost += convolving * tile.warps * 4
            options.append((cost, dataclasses.replace(one, expand_m=expand_m, vector=vector)))
    return min(options, key=lambda pair: pair[0])[1] if options else None


def ranked(
    block: Block, batch: int, itemsize: int, multiprocessors: int, shared_memory: int, clusters: bool = True
) -> list[Tile]:
    """The candidates, the one with the shortest predicted time first."""

    def key(tile: Tile) -> float:
        return predicted(block, tile, itemsize, batch, multiprocessors, shared_memory)

    return sorted(candidates(block, batch, itemsize, multiprocessors, shared_memory, clusters), key=key)


# ---- Measuring


def shortlist(tiles: Sequence[Tile], count: int) -> list[Tile]:
    """The first `count` of a ranking; of each way to cut the image and the channels only the best two that differ."""
    seen: dict[tuple, set] = {}
    picked = []
    for tile in tiles:
        others = seen.setdefault((tile.tile_h, tile.tile_w, tile.images, tile.split), set())
        if len(others) < 2 and (tile.slice, tile.warps) not in others:
            others.add((tile.slice, tile.warps))
            picked.append(tile)
        if len(picked) == count:
            break
    return picked


def _build(job: tuple[str, tuple[str, ...]]) -> str | None:
    """Compiles in a process of its own, into the cache. What went wrong, in words, or None."""
    from ..cuda import cubin

    try:
        cubin.build(*job)
    except Exception as error:
        return str(error)
    return None


@functools.cache
def _pool() -> ProcessPoolExecutor:
    import multiprocessing

    return ProcessPoolExecutor(os.cpu_count() or 1, multiprocessing.get_context("spawn"))


def compile_all(jobs: Sequence[tuple[str, tuple[str, ...]]]) -> list[str | None]:
    """Compiles sources with their options into the cache, side by side, a process for each processor.

    Returns what went wrong with each, None if nothing did.
    """
    from ..cuda import cubin

    missing = [job for job in dict.fromkeys(jobs) if not cubin.path_of(*job).exists()]
    wrong = dict(zip(missing, _pool().map(_build, missing, chunksize=1), strict=True)) if missing else {}
    return [wrong.get(job) for job in jobs]


@dataclass(frozen=True)
class Problem:
    """What is searched for: a block, how many images, in which dtype."""

    block: Block
    batch: int
    dtype: str

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def programmatic(self) -> bool:
        """Whether it is measured with programmatic launches, as networks are launched: where the card has them."""
        from .compositions import missing

        return missing("programmatic launches") is None


class Arrays:
    """Random inputs of a problem, and the block's output as the operators of common.kernels compute it."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        from .. import kernels
        from ..cuda import layout as layouts

        b, random = problem.block, np.random.default_rng(seed)

        def array(*shape: int, scale: float = 1.0) -> Any:
            made = cuda.asarray((scale * random.standard_normal(shape)).astype(problem.dtype))
            return cuda.to_layout(made, "NHWC") if len(shape) == 4 else made

        few = array(min(problem.batch, 8), *b.input_shape)  # enough to differ from each other
        self.x = layouts.empty((problem.batch, *b.input_shape), problem.dtype, "NHWC")
        for start in range(0, problem.batch, 8):
            self.x[start : start + 8] = few[: problem.batch - start]
        self.expand = self.expand_bias = None
        if b.expand != "none":
            taps = 3 if b.expand == "stem" else 1
            self.expand = array(b.hidden, b.channels, taps, taps, scale=math.sqrt(2 / b.channels) / taps)
            self.expand_bias = array(b.hidden)
        self.depthwise, self.depthwise_bias = array(b.hidden, 1, 3, 3, scale=0.5), array(b.hidden)
        self.project, self.project_bias = array(b.outputs, b.hidden, 1, 1, scale=b.hidden**-0.5), array(b.outputs)
        h = self.x
        if b.expand == "stem":
            h = kernels.conv2d(h, self.expand, self.expand_bias, 2, 1, activation=b.bounds[0])
        elif b.expand == "pointwise":
            h = kernels.pointwise(h, self.expand, self.expand_bias, activation=b.bounds[0])
        h = kernels.depthwise(h, self.depthwise, self.depthwise_bias, b.stride, 1, activation=b.bounds[1])
        self.residual = None
        if b.residual:  # of a block without expand it is another array than x
            same = (b.channels, *b.input_shape[1:]) == (b.outputs, *b.out_size)
            self.residual = self.x if same else array(problem.batch, b.outputs, *b.out_size)
        self.expected = kernels.pointwise(
            h, self.project, self.project_bias, residual=self.residual, activation=b.bounds[2]
        )
        self.out = layouts.empty(self.expected.shape, problem.dtype, "NHWC")

    def launch(self, problem: Problem, tile: Tile) -> Any:
        """What computes `out`, checked once."""
        from .. import kernels
        from .blocks import inverted_residual

        with kernels.recorded() as launches:
            inverted_residual(
                self.x, self.expand, self.expand_bias, self.depthwise, self.depthwise_bias, self.project,
                self.project_bias, stride=problem.block.stride, residual=self.residual,
                activations=problem.block.bounds, out=self.out, tile=tile, programmatic=problem.programmatic,
            )  # fmt: skip
        return launches[0]

    def error(self) -> float:
        """‖out − expected‖ / ‖expected‖."""
        expected = self.expected.astype(np.float64)
        return math.sqrt(float(((self.out - expected) ** 2).sum()) / float((expected**2).sum()))
