"""Search of tiles within a network on this card: python -m common tune --in-network SECONDS.

The tile that is fastest alone need not be the fastest in the network: kernels overlap there (programmatic launches),
and one of large thread blocks leaves the next one no room to start early. This search begins with the tiles in use,
replaces the tile of one block, measures the whole network, and keeps what makes that faster: coordinate descent.

    trials = Trials(model, "fp16", 8)          the network with tiles of one's choice; checks and times it
                                               (of int8: tuning_network_int8.Int8Trials)
    for trial in descend(trials, candidates, timer, seconds=60):
        ...                                    every tile tried; what was kept is in trials.tiles
"""

import contextlib
import csv
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import cubin
from ..measure import timing
from ..network import Network
from ..network.backends import Kernels
from ..network.compare import TOLERANCES, relative_error
from ..optimize import cost, generate, search, tiles
from ..optimize.compositions import LATENCY, THROUGHPUT, Composition
from ..optimize.generate import Block, Geometry, Tile
from ..optimize.tiles import Found, Problem, describe
from .candidates import DTYPES, UNFUSED, text_of, tile_of
from .network import THROUGHPUT_FROM
from .operators import pictures
from .tuning import problem_of

SECONDS = 60.0  # for one dtype and batch
GAIN = 0.002  # share of the network's time that a tile must save, twice
CLOSE = 0.01  # share that it may seem slower and yet be measured beside the best: clocks drift
SLOW = 1.25  # times the fastest alone: slower ones are no candidates
HOPELESS = 0.02  # share that it may lose and yet be tried again after other blocks have changed
WARM_UP_US = 3_000.0  # before the samples of a program: the one before it has warmed the card
SAMPLES = 30  # of a program, per measurement
CHECKED = 8  # different pictures in a batch
SPOILED = 99  # what integers are overwritten with before a check

KEPT, SLOWER, WRONG, FAILED = "kept", "slower", "wrong", "failed"

Times = Mapping[tuple[str, str], Sequence[tuple[int, float, Tile]]]  # (dtype, block) → (batch, µs, tile)


# ---- The network with tiles of one's choice


class Trials:
    """A network at one batch size whose programs have the tiles in `tiles`, at first those that networks use.

    Blocks and tiles are those of optimize.generate; Int8Trials has its own.

    used: the blocks of the last program, and how often it has each. Of a block without a tile, the last two layers are
    a block as well, so `tiles` grows.
    """

    def __init__(self, model: Any, dtype: str, batch: int) -> None:
        self.dtype, self.batch = dtype, batch
        self.tiles: dict[Any, Any] = {}
        self.used: Counter[Any] = Counter()
        self._changes: Mapping[Any, Any] = {}
        network = self.network(model, LATENCY if batch < THROUGHPUT_FROM else THROUGHPUT)
        self._runner, self._shape = network.runner, (batch, *network.input_shape[1:])
        folded, _ = self._runner.folded(self._shape)  # once: to read the file takes as long as all the rest
        self._runner.graph = lambda _: self._runner.rewritten(folded)
        self._x = cuda.asarray(pictures(min(batch, CHECKED), self._shape[1:]))
        self._expected: np.ndarray | None = None

    def network(self, model: Any, like: Composition) -> Network:
        """The network, composed like that, whose tiles `_tile` chooses."""
        target = Kernels(dtype=self.dtype, layout="NHWC", optimize=dataclasses.replace(like, fuse=self._tile))
        return Network(model, target, replay=False)

    def problem(self, block: Block) -> Problem:
        """What tiles of a block are for."""
        return problem_of(block, self.batch, DTYPES[self.dtype])

    def of_network(self, block: Any, batch: int, *of: str) -> Any:
        """The tile that networks use. of: the dtype."""
        return tiles.chosen(block, batch, of[0], self.problem(block).arithmetic)

    def _tile(self, block: Any, batch: int, *of: str) -> Any:
        self.used[block] += 1
        if block in self._changes:
            return self._changes[block]
        if block not in self.tiles:
            self.tiles[block] = self.of_network(block, self.batch, *of)  # batch: 1 while the network is read
        return self.tiles[block]

    @property
    def tolerance(self) -> float:
        """The relative error that a program's logits may have, measured from the first one's."""
        return TOLERANCES[self.dtype]

    @contextlib.contextmanager
    def _changed(self, changes: Mapping[Any, Any]) -> Iterator[None]:
        self._changes, self.used = changes, Counter()
        try:
            yield
        finally:
            self._changes = {}

    def program(self, changes: Mapping[Any, Any]) -> Any:
        """A new program, with these tiles in place of those in `tiles`; compiled, but not yet run."""
        with self._changed(changes):
            return self._runner.program(self._shape, arena=True)

    def blocks(self, changes: Mapping[Any, Any]) -> list[Any]:
        """The blocks that such a program would have."""
        with self._changed(changes):
            self._runner.plan(self._shape)
        return list(self.used)

    def error(self, program: Any) -> float:
        """‖out − expected‖ / ‖expected‖ of a program; expected: what the first one computed. NaN if it left gaps."""
        for array in program.buffers.values():
            array[...] = np.nan if array.dtype.kind == "f" else SPOILED  # what the last program left there is right
        for start in range(0, self.batch, CHECKED):
            program.input[start : start + CHECKED] = self._x[: self.batch - start]
        program.launch()
        out = cuda.asnumpy(program.output)
        if self._expected is None:
            self._expected = out
        return relative_error(out, self._expected)

    def by_time(self, used: Mapping[Any, int]) -> list[Any]:
        """Blocks, with how often a program has each, in the order of their predicted time, the longest first."""
        card = cuda.multiprocessors(), cuda.shared_memory()

        def us(block: Block) -> float:
            tile, itemsize = self.tiles[block], self.problem(block).itemsize
            if tile is None:
                return cost.separate(block, self.batch, itemsize, card[0])
            return cost.predicted(block, tile, itemsize, self.batch, *card)

        return sorted(used, key=lambda block: -used[block] * us(block))

    def compiled(self, times: Times, most: int) -> Callable[[Any], list[Any]]:
        """A function that returns the candidates of a block, compiled; those of the blocks of now are compiled here."""

        @functools.cache
        def some(block: Block) -> list[Tile | None]:
            return candidates(self.problem(block), times, most)

        def compiled(block: Block) -> list[Tile | None]:
            made = self._other_launches(block, some(block))
            compile_ahead({self.problem(block): made})
            return made

        blocks = self.blocks({})
        compile_ahead({self.problem(block): some(block) for block in blocks})
        self.program(dict.fromkeys(blocks))  # compiles the separate kernels
        return compiled

    def _other_launches(self, block: Block, some: Sequence[Tile | None]) -> list[Tile | None]:
        """The tile of now with `early` the other way round; and `some`, with `early` as it has it."""
        now = self.tiles.get(block)
        if now is None or not self.problem(block).programmatic:
            return list(some)
        alike = [None if tile is None else dataclasses.replace(tile, early=now.early) for tile in some]
        return [dataclasses.replace(now, early=not now.early), *alike]

    def named(self, block: Any) -> str:
        """A block in words."""
        return str(block)

    def described(self, tile: Any) -> str:
        """A tile in words."""
        return describe(tile)

    def text(self, tile: Any) -> str:
        """A tile as in the file of trials."""
        return text_of(tile)

    def keep(self, trial: "Trial", save_to: Path | None, timer: search.Timer | None = None) -> Sequence[str]:
        """Cache the tile of a trial, and keep it in the further file; with its time alone, which these files state.

        Returns why it could not be kept, if it is wrong alone or fails.
        """
        fused = trial.tile or trial.before
        assert fused is not None  # one of the two differs from "separate kernels"
        problem = self.problem(trial.block)
        alone = search.time_tiles(problem, [fused], timer)
        for tile, us in alone.us.items():
            card = cuda.multiprocessors(), cuda.shared_memory()
            predicted = cost.predicted(problem.block, tile, problem.itemsize, problem.batch, *card)
            found = Found(problem, trial.tile, us, alone.unfused_us, predicted, tile, 1)
            for path in (None, *([save_to] if save_to else [])):
                tiles.remember([found], path)
        return *alone.wrong, *alone.failed


# ---- Candidates


def read_times(path: Path) -> Times:
    """The times of tiles alone in a file of the suite "candidates". OSError, ValueError or KeyError if it is none."""
    found: dict[tuple[str, str], list[tuple[int, float, Tile]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["implementation"] != UNFUSED:
                timed = int(row["batch"]), float(row["us"]), tile_of(row["implementation"])
                found.setdefault((DTYPES[row["precision"]], row["case"]), []).append(timed)
    return found


def candidates(problem: Problem, times: Times, most: int) -> list[Tile | None]:
    """At most `most` tiles for a block, and None, the separate kernels.

    In this order: those kept for any batch size, the fastest of `times`, those that the model ranks first. Of tiles
    alike in threads and shared memory the first comes before the others: a network needs different ones to choose from.
    """
    block, batch, memory = problem.block, problem.batch, cuda.shared_memory()

    def ratio(other: int) -> float:
        return max(other / batch, batch / other)

    kept = tiles.kept(block, problem.kind)
    timed = sorted(times.get((problem.dtype, str(block)), ()), key=lambda one: (ratio(one[0]), one[1]))
    fastest = {other: min(us for same, us, _ in timed if same == other) for other, *_ in timed}
    tried = [kept[other] for other in sorted(kept, key=ratio)]
    tried += [tile for other, us, tile in timed if us <= SLOW * fastest[other]]
    if len(tried) < most:
        tried += search.most_promising(problem, most)
    able = dict.fromkeys(dataclasses.replace(tile, arithmetic=problem.arithmetic) for tile in tried)
    alike: dict[tuple[int, int], list[Tile]] = {}
    for tile in able:
        g = Geometry(block, tile, problem.itemsize)
        if tile.images <= batch and g.problem(memory) is None:
            alike.setdefault((tile.warps, g.shared // 16_384), []).append(tile)
    firsts, others = [one[0] for one in alike.values()], [tile for one in alike.values() for tile in one[1:]]
    return [*[*firsts, *others][:most], None]


def compile_ahead(some: Mapping[Problem, Sequence[Tile | None]]) -> None:
    """Compile tiles in parallel. Does nothing without a GPU."""
    if cuda.backend() == "gpu":
        pairs = [(problem, tile) for problem, every in some.items() for tile in every if tile is not None]
        cubin.build_all([generate.job(generate.source(p.block, tile, p.dtype)) for p, tile in pairs])


# ---- Coordinate descent


@dataclass(frozen=True)
class Trial:
    """A tile that was tried for a block in place of another one, the best so far.

    us, before_us: of the network with the one and the other. us is NaN if the verdict is WRONG or FAILED; `more` says
    what was wrong.
    """

    block: Any
    tile: Any
    before: Any
    us: float
    before_us: float
    verdict: str
    more: str = ""


def medians(launches: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median µs of each launch, repeated in CUDA graphs, a sample of each in turn. NoGpu on the simulator."""
    benchmarks = {name: timing.Benchmark(launch, warm_up_us=WARM_UP_US) for name, launch in launches.items()}
    compared = timing.compare(benchmarks, samples=SAMPLES)
    return {name: compared[name].median_us for name in launches}


def descend(
    trials: Trials, some: Callable[[Any], Sequence[Any]], timer: search.Timer = medians,
    seconds: float = SECONDS,
) -> Iterator[Trial]:  # fmt: skip
    """Yield each trial; the tiles that are kept go to trials.tiles. Ends after a pass without a win, or the seconds.

    some: the candidates of a block, asked for when it is visited. timer: as for search.search.
    """
    until = perf_counter() + seconds
    best, used = trials.program({}), trials.used
    trials.error(best)
    best_us = timer({"best": best.launch})["best"]
    hopeless: set[tuple[Any, Any]] = set()
    won = True
    while won:
        won = False
        for block in trials.by_time(used):
            for tile in some(block):
                if perf_counter() >= until:
                    return
                if block not in used or tile == trials.tiles[block] or (block, tile) in hopeless:
                    continue
                trial, program = _tried(trials, block, tile, best, best_us, timer)
                best_us = trial.before_us  # measured anew beside a tile that seemed faster
                if trial.verdict == KEPT:
                    best, best_us, used, won = program, trial.us, trials.used, True
                    trials.tiles[block] = tile
                elif not trial.us <= best_us * (1 + HOPELESS):  # also NaN
                    hopeless.add((block, tile))
                yield trial


def _tried(trials: Trials, block: Any, tile: Any, best: Any, best_us: float, timer: search.Timer) -> tuple[Trial, Any]:
    """(the trial, its program): kept if it is right, close to the best, and then faster by GAIN twice beside that."""
    made = functools.partial(Trial, block, tile, trials.tiles[block])
    try:
        program = trials.program({block: tile})
        error = trials.error(program)
    except Exception as problem:  # errors of the driver have no common base class; the next tile can be tried
        cuda.synchronize()  # raises if no kernel can be launched any more
        return made(np.nan, best_us, FAILED, " ".join(str(problem).split())[:300]), None
    if not error <= trials.tolerance:  # also NaN
        return made(np.nan, best_us, WRONG, f"a relative error of {error:.1e}"), None
    us = timer({"tried": program.launch})["tried"]
    if us > (1 + CLOSE) * best_us:
        return made(us, best_us, SLOWER), None
    for _ in range(2):
        both = timer({"best": best.launch, "tried": program.launch})
        us, best_us = both["tried"], both["best"]
        if us > (1 - GAIN) * best_us:
            return made(us, best_us, SLOWER), None
    return made(us, best_us, KEPT), program
