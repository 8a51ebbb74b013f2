"""Autotuning: the fastest tile of a block on this card. Candidates are compiled, checked and timed.

found = search(Problem(block, batch, "float16"))      requires a GPU
remember([found])                                     see tiles.py
time_tiles(problem, tiles).us                         {tile: µs}, for tiles of your own choice
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda, kernels
from ..cuda import cubin, graphs
from ..cuda import layout as layouts
from ..kernels.halves import Halves
from ..measure import timing
from . import cost, generate
from .blocks import inverted_residual
from .generate import Geometry, Tile
from .tiles import Found, Problem, describe, rule, shipped

TRIED = 12  # candidates that a search times
SAMPLES = 15  # timing samples per candidate
TOLERANCES = {"float32": 1e-5, "float16": 4e-3}  # for ‖out − expected‖ / ‖expected‖; both results are rounded

Timer = Callable[[Mapping[str, Callable[[], Any]]], dict[str, float]]  # launches by name → µs of each launch


class Arrays:
    """Random inputs of a problem in NHWC, and `expected`: the output as the operators of common.kernels compute it."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        b, random = problem.block, np.random.default_rng(seed)

        def array(*shape: int, scale: float = 1.0) -> Any:
            made = cuda.asarray((scale * random.standard_normal(shape)).astype(problem.dtype))
            return cuda.to_layout(made, "NHWC") if len(shape) == 4 else made

        few = array(min(problem.batch, 8), *b.input_shape)  # repeated to the full batch
        self.x = layouts.empty((problem.batch, *b.input_shape), problem.dtype, "NHWC")
        for start in range(0, problem.batch, 8):
            self.x[start : start + 8] = few[: problem.batch - start]
        self.bound = float(abs(few).max())  # of the elements of x
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
        if b.residual:  # x itself if its shape is that of the output
            same = (b.channels, *b.input_shape[1:]) == (b.outputs, *b.out_size)
            self.residual = self.x if same else array(problem.batch, b.outputs, *b.out_size)
        self.expected = kernels.pointwise(
            h, self.project, self.project_bias, residual=self.residual, activation=b.bounds[2]
        )
        self.out = layouts.empty(self.expected.shape, problem.dtype, "NHWC")

    def launch(self, problem: Problem, tile: Tile) -> Any:
        """The launch that computes `out` with a tile, its arguments checked."""
        with kernels.recorded() as launches:
            inverted_residual(
                self.x, self.expand, self.expand_bias, self.depthwise, self.depthwise_bias, self.project,
                self.project_bias, stride=problem.block.stride, residual=self.residual,
                activations=problem.block.bounds, out=self.out, tile=tile, programmatic=problem.programmatic,
                input_bound=self.bound,
            )  # fmt: skip
        return launches[0]

    def error(self) -> float:
        """‖out − expected‖ / ‖expected‖, computed in float64; NaN if out holds a NaN."""
        expected = self.expected.astype(np.float64)
        return math.sqrt(float(((self.out - expected) ** 2).sum()) / float((expected**2).sum()))


def unfused(arrays: Arrays, problem: Problem, out: Any = None) -> Callable[[], None]:
    """The launch of the same block by separate kernels, the baseline; in the problem's arithmetic.

    out: NHWC; None: a new array.
    """
    b, hidden = problem.block, arrays.x

    def products(weight: Any, bound: float) -> Halves | None:
        return Halves.of(weight, bound) if problem.arithmetic == "halves" else None

    with kernels.recorded(programmatic=problem.programmatic) as launches:
        if arrays.expand is not None:
            made = layouts.empty((problem.batch, b.hidden, b.height, b.width), problem.dtype, "NHWC")
            if b.expand == "stem":
                kernels.conv2d(
                    hidden, arrays.expand, arrays.expand_bias, 2, 1, activation=b.bounds[0], out=made
                )  # fmt: skip
            else:
                kernels.pointwise(
                    hidden, arrays.expand, arrays.expand_bias, activation=b.bounds[0], out=made,
                    arithmetic=products(arrays.expand, arrays.bound),
                )  # fmt: skip
            hidden = made
        made = layouts.empty((problem.batch, b.hidden, *b.out_size), problem.dtype, "NHWC")
        kernels.depthwise(
            hidden, arrays.depthwise, arrays.depthwise_bias, b.stride, 1, activation=b.bounds[1], out=made
        )  # fmt: skip
        out = layouts.empty(arrays.out.shape, problem.dtype, "NHWC") if out is None else out
        kernels.pointwise(
            made, arrays.project, arrays.project_bias, residual=arrays.residual, activation=b.bounds[2], out=out,
            arithmetic=products(arrays.project, max(map(abs, b.bounds[1]))),
        )  # fmt: skip

    kernels.compile_together(launches)

    def launch() -> None:
        for one in launches:
            one()

    return launch


def medians(launches: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median µs of each launch, in CUDA graphs timed in alternation. NoGpu on the simulator."""
    compared = timing.compare(launches, samples=SAMPLES)
    return {name: compared[name].median_us for name in launches}


def most_promising(problem: Problem, tried: int) -> list[Tile]:
    """The `tried` best-ranked tiles of a problem, the rule's and the shipped one, without duplicates."""
    clusters = cuda.compute_capability() >= 90
    return _most_promising(problem, tried, cuda.multiprocessors(), cuda.shared_memory(), clusters)


@functools.lru_cache(maxsize=4096)
def _most_promising(problem: Problem, tried: int, processors: int, memory: int, clusters: bool) -> list[Tile]:
    of_rule = rule(problem.block, problem.batch, problem.itemsize)
    card = processors, memory, clusters
    every = cost.ranked(problem.block, problem.batch, problem.itemsize, *card, problem.arithmetic)
    kept = shipped(problem.block, problem.batch, problem.dtype, problem.arithmetic)
    shortest = [*cost.shortlist(every, tried), *(tile for tile in (of_rule, kept) if tile)]
    tiles = dict.fromkeys(dataclasses.replace(tile, arithmetic=problem.arithmetic) for tile in shortest)
    return [tile for tile in tiles if Geometry(problem.block, tile, problem.itemsize).problem(memory) is None]


def _jobs(problem: Problem, tiles: Sequence[Tile]) -> list[tuple[str, tuple[str, ...]]]:
    return [generate.job(generate.source(problem.block, tile, problem.dtype)) for tile in tiles]


def compile_ahead(problems: Iterable[Problem], tried: int = TRIED) -> None:
    """Compile all candidates of these problems in parallel, before their searches. Does nothing without a GPU."""
    if cuda.backend() == "gpu":
        cubin.build_all([job for problem in problems for job in _jobs(problem, most_promising(problem, tried))])


@dataclass(frozen=True)
class Timed:
    """Tiles of a problem, timed on a card together with the separate kernels.

    us           median µs of each tile whose result is right
    unfused_us   of the separate kernels
    wrong        tiles with wrong results, failed: tiles that did not compile or run, one sentence each
    """

    us: dict[Tile, float]
    unfused_us: float
    wrong: tuple[str, ...]
    failed: tuple[str, ...]


def time_tiles(problem: Problem, tiles: Sequence[Tile], timer: Timer | None = None) -> Timed:
    """Compile tiles of a problem, compare their results with those of the separate kernels, and time the right ones.

    timer: replaces measure.timing in tests. NoGpu on the simulator without a timer.
    """
    if timer is None:
        with graphs.on_stream():
            pass  # raises NoGpu before anything is computed
    failed, wrong = [], []
    broken: Sequence[str | None] = [None] * len(tiles)
    if cuda.backend() == "gpu":
        broken = cubin.build_all(_jobs(problem, tiles))
    arrays = Arrays(problem)
    launches: dict[str, Callable[[], Any]] = {"unfused": unfused(arrays, problem)}
    for i, (tile, problem_of_it) in enumerate(zip(tiles, broken, strict=True)):
        if problem_of_it is not None:
            failed.append(f"{describe(tile)}: {problem_of_it}")
            continue
        arrays.out[...] = np.nan
        try:
            launch = arrays.launch(problem, tile)
            launch()
            cuda.synchronize()
        except Exception as error:  # errors of the driver have no common base class; the other tiles can be timed
            failed.append(f"{describe(tile)}: {error}")
            continue
        off, allowed = arrays.error(), TOLERANCES[problem.dtype]
        if off <= allowed:  # false for NaN
            launches[str(i)] = launch
        else:
            wrong.append(f"{describe(tile)}: a relative error of {off:.1e}, allowed are {allowed:.0e}")
    times = (timer or medians)(launches)
    unfused_us = times.pop("unfused")
    return Timed({tiles[int(name)]: us for name, us in times.items()}, unfused_us, tuple(wrong), tuple(failed))


def search(problem: Problem, tried: int = TRIED, timer: Timer | None = None) -> Found:
    """Time the `tried` best-ranked tiles of a problem, the rule's and the shipped one; return the fastest as a Found.

    See time_tiles, also for `timer`. NoGpu on the simulator without a timer, ValueError for a block that no tile fits
    and for tried < 1.
    """
    if timer is None:
        with graphs.on_stream():
            pass  # raises NoGpu before candidates are ranked
    if tried < 1:
        raise ValueError(f"tried must be at least 1, got {tried}")
    block, itemsize = problem.block, problem.itemsize
    card = cuda.multiprocessors(), cuda.shared_memory()
    tiles = most_promising(problem, tried)
    if not tiles:
        raise ValueError(f"no tile fits the block {block} in {problem.dtype}")
    timed = time_tiles(problem, tiles, timer)
    if not timed.us:
        return Found(
            problem, None, math.inf, timed.unfused_us, math.inf, None, len(tiles), timed.wrong, timed.failed
        )  # fmt: skip
    best = min(timed.us, key=lambda tile: timed.us[tile])
    predicted = cost.predicted(block, best, itemsize, problem.batch, *card)
    winner = best if timed.us[best] < timed.unfused_us else None
    return Found(
        problem, winner, timed.us[best], timed.unfused_us, predicted, best, len(tiles), timed.wrong, timed.failed
    )  # fmt: skip
