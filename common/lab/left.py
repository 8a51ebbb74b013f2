"""What is left: the network beside its roof, its blocks beside theirs, and what its kernels wait for.

errors(recorded)                     of each engine: its largest error, and the fewest pictures with equal top five
roof("fp16", 256, peaks, whole=True)   µs at least, with every block one kernel; whole=False: a kernel per layer
blocks("fp16", 256, peaks)           [Rest]: each block as tuned, its roof, the roof of its layers
profiled(recorded, "fp16", 256)      rows of the profiler, one per different kernel
launches("fp16", 1)                  of the network as tuned, for few pictures
strips(block, "fp16", 256)           recorded pairs of tiles that differ only in `strip`, with their times
conflicts(block, tile)               by the simulator: wavefronts of shared memory, and those that conflicts add
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import cuda, topology
from ..cuda.simulator.module import SimulatedModule
from ..measure.roofline import Peaks, Work, floor_us
from ..network.steps import fuse
from ..network.work import work_of
from ..optimize import generate, tiles
from ..optimize.fusions import BlockStep, InvertedResidual, PointwisePool
from ..optimize.generate import Block, Geometry, Tile
from ..report import results, tables
from ..report.results import Record, Results
from . import oracle

ROOFS = {"fp32": "3xfp16", "fp16": "fp16"}  # what multiplies in our fused blocks, by precision
DTYPES, ITEMSIZES = {"fp32": "float32", "fp16": "float16"}, {"fp32": 4, "fp16": 2}
KINDS = {"fp32": "float32 halves", "fp16": "float16"}  # of tiles.KINDS: those of the fused blocks in ROOFS


class Rest(NamedTuple):
    """A block as tuned: whether fused, µs, the roof as one kernel, the sum of its layers' roofs, how often it is."""

    block: str
    fused: bool
    us: float
    roof: float
    layers: float
    times: int


def errors(recorded: Results) -> list[tuple[str, str, float, int, int]]:
    """(engine, precision, largest error of all batches and ways, fewest pictures with equal top five, of how many)."""
    rows = results.find(recorded, suite="network", case=tables.NETWORK, mode="hot")
    found = []
    for name in tables.IMPLEMENTATIONS:
        for precision in ROOFS:
            own = [r for r in rows if (r["implementation"], r["precision"]) == (name, precision)]
            if own:
                same, checked = min((r["same_top5"], r["checked_images"]) for r in own)
                found.append((name, precision, max(r["error"] for r in own), same, checked))
    return found


def agreement(recorded: Results) -> list[tuple[float, Record]]:
    """(how far two runs of a library's network at one commit are apart, its record), the nearest first."""
    rows = results.find(recorded, suite="network", case=tables.NETWORK, mode="hot")

    def is_repeated(r: Record) -> bool:
        now, before = recorded.runs[r["run"]], recorded.runs.get(r.get("previous_run", ""))
        return before is not None and before.get("commit") == now.get("commit")

    twice = [r for r in rows if is_repeated(r) and not r["implementation"].startswith("ours")]
    apart = [(abs(r["median_us"] / r["previous_median_us"] - 1), r) for r in twice]
    return sorted(apart, key=lambda pair: pair[0])


def steps(batch: int, whole: bool = True) -> list[Any]:
    """The network's steps: every block one, or (whole=False) every layer."""
    choose = InvertedResidual((lambda *_: Tile(1, 1)) if whole else (lambda *_: None))
    return list(fuse(topology.build().with_batch(batch), choose))


def _works(step: Any, batch: int, itemsize: int) -> Iterator[Work]:
    if isinstance(step, BlockStep):
        yield Work(step.block.bytes(batch, itemsize), 2 * step.block.macs * batch)
    else:
        yield work_of(step, itemsize)


def work(precision: str, batch: int, whole: bool = True) -> list[Work]:
    """Bytes and FLOPs of each kernel of the network."""
    return [w for step in steps(batch, whole) for w in _works(step, batch, ITEMSIZES[precision])]


def roof(precision: str, batch: int, peaks: Peaks, whole: bool = True) -> float:
    """The network's roof in µs: of each kernel the longer of its bytes and its arithmetic, summed."""
    return sum(floor_us(w, ROOFS[precision], peaks) for w in work(precision, batch, whole))


def found(precision: str, batch: int) -> dict[str, dict[str, Any]]:
    """{block: what the search on the shipped card found}: tile, or None if separate kernels won; us; unfused_us."""
    by_block = json.loads(tiles.SHIPPED.read_text(encoding="utf-8"))["found"].get(DTYPES[precision], {})
    return {block: of[str(batch)] for block, of in by_block.items() if str(batch) in of}


def launches(precision: str, batch: int) -> int:
    """Launches of the network for at most 8 pictures: of a block one if the search found a tile, else one per layer.

    The last 1×1 convolution and the pool are one.
    """
    tuned = json.loads(tiles.SHIPPED.read_text(encoding="utf-8"))["found"][KINDS[precision]]

    def choose(block: Block, *_: object) -> Tile | None:
        return Tile(1, 1) if tuned.get(str(block), {}).get(str(batch), {}).get("tile") else None

    return len(fuse(topology.build().with_batch(batch), InvertedResidual(choose), PointwisePool()))


def blocks(precision: str, batch: int, peaks: Peaks) -> list[Rest]:
    """Each different block of the network as the search left it. Empty if it was not searched."""
    tuned, rows = found(precision, batch), dict[str, Rest]()
    for step in steps(batch):
        if isinstance(step, BlockStep) and str(step.block) in tuned:
            one, name = tuned[str(step.block)], str(step.block)
            [own] = _works(step, batch, ITEMSIZES[precision])
            layers: list[Any] = list(step.parts.values())
            parts = sum(floor_us(work_of(p, ITEMSIZES[precision]), ROOFS[precision], peaks) for p in layers)
            us, times = one["us"] if one["tile"] else one["unfused_us"], rows[name].times if name in rows else 0
            rows[name] = Rest(
                name, one["tile"] is not None, us, floor_us(own, ROOFS[precision], peaks), parts, times + 1
            )
    return list(rows.values())


def profiled(recorded: Results, precision: str, batch: int) -> list[tuple[str, Record]]:
    """(name, record) of each different kernel of the suite "profile"."""
    rows = results.find(recorded, suite="profile", precision=precision, batch=batch)
    different = {r["case"][3:]: r for r in rows}
    return [(name[17:-1] if name.startswith("InvertedResidual") else r["kernel"], r) for name, r in different.items()]


class Shared(NamedTuple):
    """Wavefronts of shared memory of a thread block; conflicts: the share that only bank conflicts need."""

    wavefronts: int
    conflicts: float


def strips(block: Block, precision: str, batch: int) -> list[tuple[Tile, Tile, float, float]]:
    """Recorded pairs of tiles that differ only in `strip`: (shorter strips, longer strips, µs, µs).

    Only tiles whose depthwise convolution runs on tensor cores.
    """
    one = oracle.recorded(str(block), precision, batch)
    alike: dict[Tile, list[Tile]] = {}
    for tile in sorted(one.tiles, key=lambda tile: tile.strip):
        if not tile.vector:
            alike.setdefault(dataclasses.replace(tile, strip=1), []).append(tile)
    pairs = (pair for same in alike.values() for pair in itertools.combinations(same, 2))
    return [(short, long, one.ask(short), one.ask(long)) for short, long in pairs]


def conflicts(block: Block, tile: Tile) -> Shared:
    """A trace of one thread block over one image, in fp16."""
    random, shared = np.random.default_rng(7), Geometry(block, tile, 2).shared
    shapes: list[tuple[int, ...]] = [(1, block.height, block.width, block.channels), (block.hidden, block.channels)]
    shapes += [(block.hidden,), (block.hidden, 9), (block.hidden,), (block.outputs, block.hidden), (block.outputs,)]
    arrays = [random.standard_normal(shape).astype(np.float16) for shape in shapes]
    y = np.zeros((1, *block.out_size, block.outputs), np.float16)
    module = SimulatedModule(generate.source(block, tile, "float16"), generate.options())
    kernel = module.get_function(generate.KERNEL)
    kernel.max_dynamic_shared_size_bytes = shared
    arguments = (*arrays, arrays[0] if block.residual else None, y, 1)
    report = cuda.trace(kernel, (1,), (32 * tile.warps,), arguments, shared)
    both = report.shared_loads, report.shared_stores
    wavefronts = sum(counts.units for counts in both)
    return Shared(wavefronts, 1 - sum(counts.ideal for counts in both) / wavefronts)
