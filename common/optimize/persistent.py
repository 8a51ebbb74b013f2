"""A network as one persistent kernel, for small batches: thread blocks stay resident, with a barrier between phases.

    network = Persistent(x, [(block, arrays), …, (head, arrays), (linear, arrays)])
    network.launch()                 reads x, writes network.output
    print(network.plan)              the phases, the tile of each, bytes of shared memory

A grid-wide barrier costs less than a launch. A larger gain: the next phase's weights are prefetched while this phase
computes, whereas a separate kernel can only load its weights after it has started.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import layout as layouts
from ..text import aligned
from . import cost
from .generate import MAILBOX, TYPES, Block, Geometry, Tile, ceil_div, compiled, literal, shape, wrapped
from .head import (
    Head,
    HeadGeometry,
    HeadTile,
    Linear,
    LinearGeometry,
    LinearTile,
    head_shape,
    linear_rule,
    linear_shape,
)

KERNEL = "network"
Layer = Block | Head | Linear
LayerTile = Tile | HeadTile | LinearTile

LATE_US = 0.4  # µs lost if weights are fetched after the phase before, besides the transfer of their bytes
BYTES_PER_US = 70_000  # L2 bandwidth of a multiprocessor
CANDIDATES = 24  # tiles of a phase that are combined with those of its neighbours


@dataclass(frozen=True)
class Phase:
    """A layer that is computed between two barriers, and its tiling.

    teams      tiles that a thread block computes at a time, each by tile.warps warps
    work       bytes of shared memory for the intermediate results of all teams
    weights    bytes of shared memory for weights
    resident   whether all weights of a thread block are in shared memory at once
    early      whether the weights are prefetched while the phase before computes
    """

    layer: Layer
    tile: LayerTile
    teams: int
    work: int
    weights: int
    resident: bool = True
    early: bool = True

    @property
    def split(self) -> int:
        """Thread blocks of a cluster that split the hidden channels; 1: no cluster."""
        return self.tile.split if isinstance(self.tile, Tile) else 1


@dataclass(frozen=True)
class Plan:
    """A network as one launch.

    phases         in order
    warps          warps per thread block
    cluster        thread blocks per cluster
    predicted_us   time by the cost model
    rolled         whether consecutive phases that differ only in their arrays become a loop, which keeps the code in
                   the instruction cache
    barrier        a barrier of grid.h; default: grid_barrier, which was faster on an H200 than one arrival per cluster
    """

    phases: tuple[Phase, ...]
    dtype: str
    batch: int
    warps: int
    cluster: int
    predicted_us: float = 0.0
    rolled: bool = True
    barrier: str = ""

    def runs(self) -> list[list[int]]:
        """The indices of the phases, grouped by loop."""
        found: list[list[int]] = []
        for i, phase in enumerate(self.phases):
            before = self.phases[found[-1][-1]] if found else None
            alike = (
                before and isinstance(phase.layer, Block) and dataclasses.replace(before, early=phase.early) == phase
            )
            same = alike and (len(found[-1]) == 1 or before == phase)
            if self.rolled and same:
                found[-1].append(i)
            else:
                found.append([i])
        return found

    @property
    def needed(self) -> list[int]:
        """Bytes of shared memory used in each phase: its work, its weights and the next one's prefetched weights."""
        after = [*(phase.weights if phase.early else 0 for phase in self.phases[1:]), 0]
        return [phase.work + phase.weights + coming for phase, coming in zip(self.phases, after, strict=True)]

    @property
    def shared(self) -> int:
        """Bytes of shared memory per thread block."""
        return ceil_div(max(self.needed), 16) * 16

    def places(self) -> list[tuple[int, int]]:
        """(offset of work, offset of weights) of each phase in shared memory; weights alternate between the ends."""
        total, found = self.shared, []
        for i, phase in enumerate(self.phases):
            if i % 2 == 0:
                found.append((phase.weights, 0))
            else:
                found.append((total - phase.weights - phase.work, total - phase.weights))
        return found

    def tiles(self, index: int) -> int:
        """Number of work units of a phase: tiles of a block, slices of a head, groups of rows of a linear layer."""
        phase = self.phases[index]
        itemsize = np.dtype(self.dtype).itemsize
        if isinstance(phase.layer, Block):
            assert isinstance(phase.tile, Tile)
            return ceil_div(self.batch, phase.tile.images) * Geometry(phase.layer, phase.tile, itemsize).tiles
        if isinstance(phase.layer, Head):
            assert isinstance(phase.tile, HeadTile)
            return HeadGeometry(phase.layer, phase.tile, itemsize).slices
        assert isinstance(phase.tile, LinearTile)
        return LinearGeometry(phase.layer, phase.tile, itemsize).groups

    def __str__(self) -> str:
        rows = [("", "phase", "tiles", "split", "teams × warps", "tile", "work", "weights", "fetched")]
        for i, phase in enumerate(self.phases):
            rows.append(
                (
                    f"{i}:", str(phase.layer), str(self.tiles(i)), str(phase.split),
                    f"{phase.teams} × {phase.tile.warps}", _cut(phase.tile),
                    f"{phase.work:,}", f"{phase.weights:,}" + ("" if phase.resident else " at a time"),
                    "early" if phase.early else "late",
                )
            )  # fmt: skip
        head = f"{self.dtype}, batch {self.batch}: {32 * self.warps} threads, clusters of {self.cluster}, "
        return "\n".join([head + f"{self.shared:,} bytes of shared memory", *aligned(rows, right=(0, 2, 3, 6, 7))])


def _cut(tile: LayerTile) -> str:
    if isinstance(tile, Tile):
        return f"{tile.tile_h}×{tile.tile_w}, {tile.slice} channels"
    return f"{tile.channels} channels" if isinstance(tile, HeadTile) else f"{tile.rows} rows a warp"


# ---- Choosing tiles


def chosen(
    layers: Sequence[Layer], dtype: str, batch: int = 1, *, multiprocessors: int | None = None,
    shared_memory: int | None = None, warps: Sequence[int] = (8, 4), clusters: Sequence[int] | None = None,
    tiles: Sequence[LayerTile | None] | None = None,
) -> Plan:  # fmt: skip
    """The Plan that the cost model predicts to be fastest. ValueError if no tiles fit.

    dtype             "float32" or "float16"
    multiprocessors   number of thread blocks; default: that of this card
    shared_memory     bytes per thread block; default: those of this card
    warps             warps per thread block to try
    clusters          cluster sizes to try; default: 8 and 1 on cards with clusters, else 1
    tiles             a tile for each layer, or None where one is to be chosen
    """
    shared = shared_memory or cuda.shared_memory()
    many = multiprocessors or (cuda.multiprocessors() if cuda.backend() == "gpu" else 16)
    able = cuda.backend() == "simulator" or cuda.compute_capability() >= 90
    sizes = tuple(clusters) if clusters is not None else (8, 1) if able else (1,)
    given = tuple(zip(layers, tiles or [None] * len(layers), strict=True))
    found = [
        made
        for count in warps
        for cluster in sizes
        if (made := _best(given, dtype, batch, many // cluster * cluster or cluster, shared, count, cluster))
    ]
    if not found:
        raise ValueError(f"no tiles of {' or '.join(map(str, warps))} warps fit into {shared:,} bytes of shared memory")
    return min(found, key=lambda made: made.predicted_us)


def _best(
    layers: tuple[tuple[Layer, LayerTile | None], ...], dtype: str, batch: int, blocks: int, shared: int, warps: int,
    cluster: int,
) -> Plan | None:  # fmt: skip
    """The plan of least predicted time, by dynamic programming over the phases; None if no tiles fit."""
    ways: list[tuple[float, tuple[Phase, ...]]] = [(0.0, ())]
    for layer, tile in layers:
        options = _phases(layer, tile, dtype, batch, blocks, shared, warps, cluster)
        reached = []
        for us, phase in options:
            best: tuple[float, tuple[Phase, ...]] | None = None
            for before, chain in ways:
                early = not chain or chain[-1].work + chain[-1].weights + phase.weights <= shared
                total = before + us + (0 if early else LATE_US + phase.weights / BYTES_PER_US)
                if best is None or total < best[0]:
                    best = total, (*chain, dataclasses.replace(phase, early=early))
            if best is not None:
                reached.append(best)
        ways = reached
    if not ways:
        return None
    us, chain = min(ways, key=lambda way: way[0])
    return Plan(chain, dtype, batch, warps, cluster, us)


@functools.lru_cache(maxsize=1024)
def _phases(
    layer: Layer, tile: LayerTile | None, dtype: str, batch: int, blocks: int, shared: int, warps: int, cluster: int
) -> list[tuple[float, Phase]]:
    """Candidate tilings of a layer, each with its predicted microseconds, the fastest first."""
    itemsize = np.dtype(dtype).itemsize
    if isinstance(layer, Head):
        assert tile is None or isinstance(tile, HeadTile)
        return [(2.0, made) for made in _of_head(layer, tile, shared, itemsize, warps)]
    if isinstance(layer, Linear):
        assert tile is None or isinstance(tile, LinearTile)
        rule = tile or linear_rule(layer, itemsize, blocks, shared // 2, warps)
        linear = LinearGeometry(layer, rule, itemsize)
        return [(2.0, Phase(layer, rule, 1, 0, linear.weights))] if linear.problem(shared) is None else []
    assert tile is None or isinstance(tile, Tile)
    found: dict[Tile, tuple[float, Phase]] = {}
    for one in [tile] if tile else _tiles(layer, batch, itemsize, blocks, shared, warps, cluster):
        geometry = Geometry(layer, one, itemsize)
        weights = geometry.stages * geometry.stage_bytes
        work = geometry.shared - weights - (MAILBOX if one.split > 1 else 0)
        if one.kind or one.warps > warps or cluster % one.split or geometry.problem(shared):
            continue
        tiles = ceil_div(batch, one.images) * geometry.tiles
        teams = max(1, min(warps // one.warps, ceil_div(tiles * one.split, blocks), (shared - weights) // work))
        phase = Phase(layer, one, teams, teams * work, weights, geometry.resident)
        # teams share a multiprocessor as resident thread blocks do
        found[one] = (
            cost.predicted_of(geometry, batch, blocks, shared, teams),
            phase,
        )
    ranked = sorted(found.values(), key=lambda pair: pair[0])
    picked = list(ranked[:CANDIDATES])
    for most in (
        shared // 4,
        shared // 3,
        2 * shared // 5,
    ):  # which leave room for the weights of the neighbouring phases
        picked += [pair for pair in ranked if pair[1].weights <= most and pair[1].work + 2 * most <= shared][
            : CANDIDATES // 2
        ]
    return list(dict.fromkeys(picked))


def _tiles(
    block: Block, batch: int, itemsize: int, blocks: int, shared: int, warps: int, cluster: int
) -> Iterator[Tile]:
    """All tiles that fit into thread blocks of `warps` warps and may be fast."""
    out_h, out_w = block.out_size
    heights = sorted({n for n in (1, 2, 4, 7, 8, 14) if n < out_h} | ({out_h} if out_h <= 14 else set()))
    widths = sorted({n for n in (4, 7, 8, 14, 16, 28) if n < out_w} | ({out_w} if out_w <= 28 else set()))
    limit = min(255, 65536 // (32 * warps))  # registers of a thread
    for h, w in itertools.product(heights, widths):
        tiles = batch * ceil_div(out_h, h) * ceil_div(out_w, w)
        if h * w > 256 or (h > w and w < out_w) or tiles > 8 * blocks * warps:
            continue
        for split, wc, wp, planes in itertools.product((1, 2, 4, 8), range(1, warps + 1), (1, 2, 4, 8), (1, 2, 3, 4)):
            channels, slices = 16 * planes * wc, ceil_div(block.hidden, 16 * planes * wc * split)
            wasted = slices * channels * split / ceil_div(block.hidden, 16) / 16
            if wc * wp > warps or cluster % split or channels > 256 or wasted > 1.25:
                continue
            if split > 1 and tiles * split > 2 * blocks:
                continue
            strips = [n for n in (1, 2, 4, 7, 8) if h % n == 0][:3]
            for strip, stages in itertools.product(strips, sorted({min(2, slices), slices})):
                tile = Tile(h, w, 1, channels, split, strip, 2, stages, wc * wp, wp)
                geometry = Geometry(block, tile, itemsize)
                if wp > ceil_div(geometry.pixels_in, 16) or geometry.shared > shared:
                    continue
                if best := _with_registers(block, tile, geometry, itemsize, limit):
                    yield best


def _with_registers(block: Block, tile: Tile, geometry: Geometry, itemsize: int, limit: int) -> Tile | None:
    """The tile with project_n and expand_m that fit into `limit` registers per thread; None if none do."""
    twice, steps = 2 if itemsize == 4 else 1, geometry.k_padded * itemsize // 32
    m_out, pairs = ceil_div(geometry.pixels_out, 16), ceil_div(block.outputs, 16)
    ways = []
    for n in (n for n in range(1, min(tile.warps, pairs) + 1) if tile.warps % n == 0):
        m3, n3 = ceil_div(m_out, tile.warps // n), ceil_div(pairs, n)
        ways.append((m3 * n3, m3 + n3, n))
    held = steps * geometry.planes * twice
    for count, beside, n in sorted(ways):
        sums, weights = 8 * count, 4 * (held if held <= 12 else geometry.planes * twice)
        rest = max(sums * twice + 4 * twice * (beside + 1) + 20, sums + (82 if itemsize == 2 else 50))
        for expand_m in (2, 1) if ceil_div(geometry.pixels_in, 16 * tile.pixel_warps) > 1 else (1,):
            expand = sums + weights + (twice * expand_m + 1) * 8 * geometry.planes + 4 * twice + 24
            if max(rest, expand) <= limit:
                return dataclasses.replace(tile, expand_m=expand_m, project_n=n)
    return None


def _of_head(head: Head, tile: HeadTile | None, shared: int, itemsize: int, warps: int) -> list[Phase]:
    p = max(n for n in (1, 2, 4) if n <= ceil_div(head.pixels, 16) and warps % n == 0)
    found = []
    for one in [tile] if tile else [HeadTile(16, 1, p, warps // p)]:
        geometry = HeadGeometry(head, one, itemsize)
        if one.warps == warps and geometry.problem(shared) is None:
            found.append(Phase(head, one, 1, geometry.work, geometry.weights))
    return found


# ---- The kernel

_ROLES = {
    Block: ("expand", "expand_bias", "depthwise", "depthwise_bias", "project", "project_bias"),
    Head: ("weight", "bias"),
    Linear: ("weight", "bias"),
}


def _declared(plan: Plan, index: int) -> str:
    """The declarations of a phase: struct of constants, type, and a static_assert of its shared memory."""
    phase, name = plan.phases[index], f"Shape{index}"
    if isinstance(phase.layer, Block):
        assert isinstance(phase.tile, Tile)
        text = shape(name, phase.layer, phase.tile, plan.dtype)
        kind = f"Phase<{name}, THREADS, {phase.teams}>"
        fits = f"{phase.teams} * Phase{index}::WORK == {phase.work} && Phase{index}::WEIGHTS == {phase.weights}"
    elif isinstance(phase.layer, Head):
        assert isinstance(phase.tile, HeadTile)
        text, kind = head_shape(name, phase.layer, phase.tile, plan.dtype), f"Head<{name}>"
        fits = f"Phase{index}::WORK == {phase.work} && Phase{index}::WEIGHTS == {phase.weights}"
    else:
        assert isinstance(phase.tile, LinearTile)
        text, kind = linear_shape(name, phase.layer, phase.tile, plan.dtype), f"Linear<{name}>"
        fits = f"Phase{index}::WEIGHTS == {phase.weights}"
    return f'{text}\nusing Phase{index} = {kind};\nstatic_assert({fits}, "shared memory of phase {index}");'


def _made(plan: Plan, index: int) -> str:
    """The variables of a phase: weights, the phase object, this thread block's unit, the lambda that prefetches."""
    phase, i = plan.phases[index], index
    work, weights = plan.places()[i]
    arrays = ", ".join(f"{role}{i}" for role in _ROLES[type(phase.layer)])
    if isinstance(phase.layer, Block):
        d = phase.split
        first = f"blockIdx.x / CLUSTER * {plan.cluster // d}" if d > 1 else "blockIdx.x"
        return f"""{_weights(plan, i)}
    Phase{i} phase{i}(at + {work}, at + {weights}, blockIdx.x % {d}, blockIdx.x % CLUSTER / {d} * {d});
    const int units{i} = gridDim.x / {d}, unit{i} = blockIdx.x / {d}, first{i} = {first};
    const auto fetch{i} = [&] {{ if (unit{i} < {plan.tiles(i)}) phase{i}.prefetch(w{i}); }};"""
    low, high = map(literal, phase.layer.bounds if isinstance(phase.layer, Head) else (0.0, 0.0))
    made = f"\n    const HeadWeights<T> w{i} = {{{arrays}, {low}, {high}}};"
    if isinstance(phase.layer, Linear):
        return f"""{made}
    Phase{i} phase{i}(at + {weights});
    const auto fetch{i} = [&] {{ if (blockIdx.x < {plan.tiles(i)}) phase{i}.prefetch(w{i}, blockIdx.x); }};"""
    return f"""{made}
    Phase{i} phase{i}(at + {work}, at + {weights});
    Walk slices{i}, images{i};
    phase{i}.place(blockIdx.x, gridDim.x, N, slices{i}, images{i});
    const auto fetch{i} = [&] {{
        if (slices{i}.first < {plan.tiles(i)} && images{i}.first < N) phase{i}.prefetch(w{i}, slices{i}.first);
    }};"""


def _weights(plan: Plan, index: int) -> str:
    """The weights of a phase in a loop, whose other variables are those of the loop's first phase."""
    layer = plan.phases[index].layer
    assert isinstance(layer, Block)
    lows, highs = (", ".join(literal(bound[side]) for bound in layer.bounds) for side in (0, 1))
    arrays = ", ".join(f"{role}{index}" for role in _ROLES[Block])
    return f"""
    const Weights<A> w{index} = {{{arrays},
        {{{lows}}}, {{{highs}}}}};"""


def _input(index: int) -> str:
    return f"y{index - 1}" if index else "x"


def _leave(plan: Plan, index: int) -> list[str]:
    """The statements between a phase and the next one."""
    if index + 1 == len(plan.phases):
        return []
    following = plan.phases[index + 1]
    lines = [] if following.early else [f"fetch{index + 1}();"]
    if isinstance(following.layer, Block):
        lines.append(_clear(plan, index + 1))
    return [*lines, "BARRIER(counter);"]


def _clear(plan: Plan, index: int) -> str:
    """The statement that clears the phase's working memory, for thread blocks that have a tile in it."""
    return f"if (unit{index} < {plan.tiles(index)}) phase{index}.clear();"


def _after(plan: Plan, index: int) -> str:
    """The name of the lambda that prefetches the next phase's weights; "Nothing()" if they are not prefetched."""
    early = index + 1 < len(plan.phases) and plan.phases[index + 1].early
    return f"fetch{index + 1}" if early else "Nothing()"


def _run(plan: Plan, index: int) -> str:
    phase, i, x = plan.phases[index], index, _input(index)
    after = _after(plan, i)
    if isinstance(phase.layer, Block):
        residual = x if phase.layer.residual else "(const T*)0"
        own = f"unit{i} - first{i} + phase{i}.at.team * units{i}"
        lines = [f"phase{i}.walk({x}, w{i}, {residual}, y{i}, N, first{i}, {phase.teams} * units{i}, {own}, {after});"]
    elif isinstance(phase.layer, Head):
        lines = [f"phase{i}.run({x}, w{i}, y{i}, N, slices{i}, images{i}, {after});"]
    else:
        lines = [f"phase{i}.run({x}, w{i}, y{i}, N, blockIdx.x, gridDim.x);"]
        lines += [] if after == "Nothing()" else [f"{after}();"]
    return "\n    ".join([*lines, *_leave(plan, i)])


def _loop(plan: Plan, numbers: list[int]) -> str:
    """The loop over phases that differ only in their arrays. Each but the last prefetches for the next iteration."""
    first, last = numbers[0], numbers[-1]
    phase, places = plan.phases[first], plan.places()

    def pick(names: list[str]) -> str:
        return " : ".join([*(f"i == {i} ? {name}" for i, name in zip(numbers[:-1], names, strict=False)), names[-1]])

    def pick_weights(members: list[int]) -> str:
        text = f"w{members[-1]}"
        for i, member in reversed(list(zip(numbers, members[:-1], strict=False))):
            text = f"either(i == {i}, w{member}, {text})"
        return text

    def places_of(index: str) -> str:  # of the phase with this index expression, "i" or "(i + 1)"
        found = []
        for kind in (0, 1):
            even, odd = (places[first + (first + side) % 2][kind] for side in (0, 1))
            found.append(f"at + ({index} % 2 ? {odd} : {even})")
        return ", ".join(found)

    make = f"blockIdx.x % {phase.split}, blockIdx.x % CLUSTER / {phase.split} * {phase.split}"
    residual = "from" if isinstance(phase.layer, Block) and phase.layer.residual else "(const T*)0"
    own = f"unit{first} - first{first} + phase.at.team * units{first}"
    inner = plan.phases[first + 1].early
    fetch = f"if (unit{first} < {plan.tiles(first)}) next.prefetch({pick_weights(numbers[1:])})"
    after_last = _after(plan, last)
    lines = [
        f"const Weights<A> w = {pick_weights(numbers)};",
        f"const T* const from = {pick([_input(i) for i in numbers])};",
        f"T* const to = {pick([f'y{i}' for i in numbers])};",
        f"Phase{first} phase({places_of('i')},",
        f"    {make});",
        f"Phase{first} next({places_of('(i + 1)')},",
        f"    {make});",
        "const auto after = [&] {",
        f"    if (i == {last}) {after_last if after_last == 'Nothing()' else after_last + '()'};",
        *([f"    else {fetch};"] if inner else []),
        "};",
        f"phase.walk(from, w, {residual}, to, N, first{first}, {phase.teams} * units{first}, {own}, after);",
        f"if (i < {last}) {{",
        *([] if inner else [f"    {fetch};"]),
        f"    if (unit{first} < {plan.tiles(first)}) next.clear();",
        "    BARRIER(counter);",
        "}",
    ]
    body = "\n        ".join(lines)
    loop = f"""#pragma unroll 1
    for (int i = {first}; i <= {last}; ++i) {{
        {body}
    }}"""
    return "\n    ".join([loop, *_leave(plan, last)])


# selected member by member: selecting the struct would put it into local memory
_EITHER = """
template <class A>
__device__ __forceinline__ Weights<A> either(bool first, const Weights<A>& a, const Weights<A>& b) {
    return {first ? a.expand : b.expand, first ? a.expand_bias : b.expand_bias, first ? a.depthwise : b.depthwise,
            first ? a.depthwise_bias : b.depthwise_bias, first ? a.project : b.project,
            first ? a.project_bias : b.project_bias, {a.low[0], a.low[1], a.low[2]}, {a.high[0], a.high[1], a.high[2]}};
}"""


def source(plan: Plan) -> str:
    """The source of a plan's kernel `network`, for a cooperative launch with a grid divisible by the cluster size."""
    numbers, t = range(len(plan.phases)), TYPES[plan.dtype]
    declared = "\n".join(_declared(plan, loop[0]) for loop in plan.runs())
    weights = ",\n".join(
        wrapped(f"const {t}* __restrict__ {role}{i}" for role in _ROLES[type(plan.phases[i].layer)]) for i in numbers
    )
    outputs = wrapped(f"{t}* y{i}" for i in numbers)
    loops = plan.runs()
    made = "".join(_made(plan, i) if i == loop[0] else _weights(plan, i) for loop in loops for i in loop)
    runs = "\n    ".join(_loop(plan, loop) if len(loop) > 1 else _run(plan, loop[0]) for loop in loops)
    barrier = plan.barrier or "grid_barrier"
    clear = _clear(plan, 0) if isinstance(plan.phases[0].layer, Block) else ""
    dims = f"__cluster_dims__({plan.cluster}, 1, 1) " if plan.cluster > 1 else ""
    started = "\n    cluster_sync();  // all blocks of the cluster have started" if plan.cluster > 1 else ""
    return f"""// requires: sm_{90 if plan.cluster > 1 else 80}
#include "fused/persistent.h"
#include "head.h"
#define BARRIER {barrier}

constexpr int N = {plan.batch}, THREADS = {32 * plan.warps}, CLUSTER = {plan.cluster};
{declared}

{_EITHER if any(len(loop) > 1 for loop in loops) else ""}
// x and y…: not __restrict__, as what one phase writes the next one reads
extern "C" __global__ void {dims}__launch_bounds__({32 * plan.warps}, 1)
{KERNEL}(unsigned* counter, const {t}* x,
{outputs},
{weights}) {{
    using A = Default<{t}>::Arithmetic;
    using T = A::T;
    extern __shared__ uint4 shared[];
    char* const at = (char*)shared;{made}

    fetch0();
    {clear}{started}
    {runs}
}}
"""


# ---- Launching


class Persistent:
    """A network as one launch over arrays of the backend: `launch()` reads `x` and writes `output`.

    x        the input of the first phase, (N, C, H, W) in NHWC
    phases   pairs of a layer and its arrays. Of a Block: expand, expand_bias, depthwise, depthwise_bias, project,
             project_bias, as `inverted_residual` takes them; of a Head or Linear: weight, bias. Biases may be None, and
             expand if the block has none. Each phase reads the output of the one before
    plan     default: `chosen` for these layers
    blocks   number of thread blocks; default: as many as can be resident at once

    outputs[i] is the output of phase i: (N, O, H, W) in NHWC for a Block, (N, O) for the others. Do not launch on
    several streams at the same time: launches share the barrier's counter.
    ValueError names what does not fit; RuntimeError if the card cannot hold a cluster.
    """

    def __init__(
        self, x: Any, phases: Sequence[tuple[Layer, Sequence[Any]]], *, plan: Plan | None = None,
        blocks: int | None = None,
    ) -> None:  # fmt: skip
        dtype, batch, layers = np.dtype(x.dtype), int(x.shape[0]), [layer for layer, _ in phases]
        self.plan = plan or chosen(layers, dtype.name, batch)
        same = (self.plan.dtype, self.plan.batch) == (dtype.name, batch)
        if [phase.layer for phase in self.plan.phases] != layers or not same:
            raise ValueError(f"plan is for other layers, dtype or batch: {self.plan.dtype}, {self.plan.batch} images")
        self.x, self.outputs = x, [_output(layer, batch, dtype) for layer in layers]
        self.output = self.outputs[-1]
        self._check(phases)
        self.counter = cuda.zeros(1, np.uint32)
        arrays = [array for _, given in phases for array in given]
        self.arrays = [None if array is None else layouts.as_stored(array) for array in (x, *self.outputs, *arrays)]
        self._compile(blocks)
        cluster = self.plan.cluster
        if plan is None and blocks is None and self.blocks < cuda.multiprocessors() // cluster * cluster:
            # fewer clusters are resident than multiprocessors allow: plan for these, to avoid a second wave
            self.plan = chosen(layers, dtype.name, batch, multiprocessors=self.blocks, clusters=(cluster,))
            self._compile(blocks)

    def _compile(self, blocks: int | None) -> None:
        """Compile the plan's kernel and bind its launch with `blocks` thread blocks."""
        self.source = source(self.plan)
        self.kernel = compiled(self.source, KERNEL, cooperative=True)
        shared = self.plan.shared
        cuda.allow_shared(self.kernel, shared)
        self.blocks = blocks or resident(self.kernel, self.plan)
        if self.blocks % self.plan.cluster:
            raise ValueError(f"blocks must be a multiple of {self.plan.cluster}, the cluster, got {self.blocks}")
        self.launch = self.kernel.bound(
            (self.blocks,), (32 * self.plan.warps,), (self.counter, *self.arrays), shared_mem=shared
        )

    def _check(self, phases: Sequence[tuple[Layer, Sequence[Any]]]) -> None:
        shape, itemsize = tuple(self.x.shape), self.x.dtype.itemsize
        limit = cuda.shared_memory()
        for i, (layer, arrays) in enumerate(phases):
            wanted, roles = _shapes(layer), _ROLES[type(layer)]
            if isinstance(layer, Block):
                taken: tuple[int, ...] = (shape[0], *layer.input_shape)
            elif isinstance(layer, Head):
                taken = (shape[0], layer.channels, *shape[2:]) if math.prod(shape[2:]) == layer.pixels else ()
            else:
                taken = (shape[0], layer.inputs)
            if shape != taken:
                raise ValueError(f"phase {i}, {layer}: its input has shape {shape}")
            if len(arrays) != len(roles):
                takes = f"{len(roles)} arrays ({', '.join(roles)})"
                raise ValueError(f"phase {i}, {layer}: takes {takes}, got {len(arrays)}")
            for role, array, size in zip(roles, arrays, wanted, strict=True):
                if array is None and (role.endswith("bias") or size is None):
                    continue
                if array is None or size is None or tuple(array.shape) != size or array.dtype != self.x.dtype:
                    found = "None" if array is None else f"{array.dtype} {tuple(array.shape)}"
                    raise ValueError(f"phase {i}, {layer}: {role} must be {self.x.dtype} {size}, got {found}")
                if len(size) == 4 and not layouts.has(array, "NHWC"):
                    raise ValueError(f"phase {i}, {layer}: {role} must be dense in NHWC, got strides {array.strides}")
            tile = self.plan.phases[i].tile
            geometry: Any = {Block: Geometry, Head: HeadGeometry, Linear: LinearGeometry}[type(layer)]
            if problem := geometry(layer, tile, itemsize).problem(limit):
                raise ValueError(f"phase {i}, {layer}: {problem}")
            shape = tuple(self.outputs[i].shape)
        if not layouts.has(self.x, "NHWC"):
            raise ValueError(f"x must be dense in NHWC, got strides {self.x.strides} for shape {tuple(self.x.shape)}")
        if self.plan.shared > limit:
            raise ValueError(f"plan needs {self.plan.shared:,} bytes of shared memory, there are {limit:,}")


def _shapes(layer: Layer) -> list[tuple[int, ...] | None]:
    """The shapes of a layer's arrays in the order of _ROLES; None for an absent array."""
    if isinstance(layer, Linear):
        return [(layer.outputs, layer.inputs), (layer.outputs,)]
    if isinstance(layer, Head):
        return [(layer.outputs, layer.channels, 1, 1), (layer.outputs,)]
    h, c, o = layer.hidden, layer.channels, layer.outputs
    expand = {"none": None, "pointwise": (h, c, 1, 1), "stem": (h, c, 3, 3)}[layer.expand]
    return [expand, None if expand is None else (h,), (h, 1, 3, 3), (h,), (o, h, 1, 1), (o,)]


def _output(layer: Layer, batch: int, dtype: Any) -> Any:
    if isinstance(layer, Block):
        return layouts.empty((batch, layer.outputs, *layer.out_size), dtype, "NHWC")
    return cuda.empty((batch, layer.outputs), dtype)


def resident(kernel: Any, plan: Plan) -> int:
    """Thread blocks of a plan's kernel that can be resident at once; on the simulator two clusters.

    RuntimeError if the card cannot hold a cluster.
    """
    if cuda.backend() == "simulator":
        return 2 * plan.cluster
    if plan.cluster == 1:
        return cuda.multiprocessors()
    from cuda.bindings import driver

    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dims = attribute.value.clusterDim
    dims.x, dims.y, dims.z = plan.cluster, 1, 1
    config.gridDimX, config.gridDimY, config.gridDimZ = cuda.multiprocessors() // plan.cluster * plan.cluster, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32 * plan.warps, 1, 1
    config.sharedMemBytes = plan.shared
    config.attrs, config.numAttrs = [attribute], 1
    status, clusters = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(kernel.kernel.ptr), config)
    if status != driver.CUresult.CUDA_SUCCESS or clusters < 1:
        raise RuntimeError(f"no cluster of {plan.cluster} thread blocks fits on this card ({status})")
    return min(int(clusters) * plan.cluster, cuda.multiprocessors() // plan.cluster * plan.cluster)
