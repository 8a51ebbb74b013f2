"""The suite "candidates": many tiles of a few blocks, timed; what a search has to choose from (chapter 06).

Of all tiles that cost.py admits for a block, the suite times the ones that its model ranks first, and a random sample
of all others as a control. The records are an oracle for searches that have no GPU (common/lab/oracle.py): how good a
ranking or a search is can be computed from them.

A record's implementation is the tile as text, see `text_of`; the record of the separate kernels also says how many
candidates there are (`of`) and how many of the ranking's first were timed (`ranked`).
"""

import ast
import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from .. import cuda
from ..cuda import graphs
from ..cuda.graphs import on_stream
from ..measure import timing
from ..optimize import cost, search
from ..optimize.generate import Block, Tile
from ..optimize.tiles import Problem
from ..report.results import Record, rounded_us
from . import driver
from .driver import Measured

BLOCKS = {
    "56×56": Block(56, 56, 24, 144, 24, residual=True),
    "28×28": Block(28, 28, 32, 192, 64, stride=2),
    "14×14": Block(14, 14, 96, 576, 96, residual=True),
    "7×7": Block(7, 7, 160, 960, 160, residual=True),
}
DTYPES = {"fp32": "float32", "fp16": "float16"}
RANKED, RANDOM = 120, 280
SEED = 0
SAMPLES = 9
WARM_UP_US = 2_000.0  # of each tile; hundreds are timed one after the other, so the card is warm
UNFUSED = "separate kernels"


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """blocks: by their key in BLOCKS. ranked, random: tiles of the model's ranking and of the control, per block."""

    blocks: tuple[str, ...] = ()
    ranked: int = RANKED
    random: int = RANDOM

    CHOICES: ClassVar = {
        "blocks": (tuple(BLOCKS), tuple(BLOCKS)), "batches": (None, (1, 256)),
        "precisions": (tuple(DTYPES), ("fp16",)),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranked < 1 or self.random < 0:
            raise ValueError(f"ranked must be at least 1 and random at least 0, got {self.ranked} and {self.random}")


@dataclass(frozen=True)
class Candidate:
    """A tile with its place in the model's ranking, from 1 on, and whether it was drawn at random."""

    tile: Tile
    order: int
    drawn: bool


def chosen(problem: Problem, ranked: int, drawn: int) -> tuple[list[Candidate], int]:
    """(the tiles to time in the order of the model's ranking, the number of all candidates) on this card.

    The `drawn` random ones are drawn from behind the `ranked` first, with SEED.
    """
    clusters = cuda.compute_capability() >= 90
    card = cuda.multiprocessors(), cuda.shared_memory(), clusters
    ranking = cost.ranked(problem.block, problem.batch, problem.itemsize, *card, problem.arithmetic)
    every = list(dict.fromkeys(ranking))
    behind = range(ranked, len(every))
    places = sorted(random.Random(SEED).sample(behind, min(drawn, len(behind))))
    first = [Candidate(tile, i, False) for i, tile in enumerate(every[:ranked], start=1)]
    return first + [Candidate(every[place], place + 1, True) for place in places], len(every)


def text_of(tile: Tile) -> str:
    """A tile as text that no other tile has: "tile_h=7 tile_w=14 slice=48 …", without fields at their defaults."""
    fields = ((field, getattr(tile, field.name)) for field in dataclasses.fields(Tile))
    return " ".join(f"{field.name}={value}" for field, value in fields if value != field.default)


def tile_of(text: str) -> Tile:
    """The tile of a text by `text_of`. ValueError or TypeError if it is none."""
    fields = (field.partition("=") for field in text.split())
    values: dict[str, Any] = {
        name: value if name == "arithmetic" else ast.literal_eval(value) for name, _, value in fields
    }
    return Tile(**values)


def _record(problem: Problem, precision: str, implementation: str, us: float, more: dict[str, Any]) -> Record:
    return {
        "suite": "candidates", "case": str(problem.block), "implementation": implementation, "precision": precision,
        "batch": problem.batch, "us": rounded_us(us), **more,
    }  # fmt: skip


def records_of(
    problem: Problem, precision: str, candidates: Sequence[Candidate], of: int, timed: search.Timed
) -> list[Record]:
    """A record per tile that was right, and one of the separate kernels, which is the first."""
    card = cuda.multiprocessors(), cuda.shared_memory()
    ranked = sum(not one.drawn for one in candidates)
    found = [_record(problem, precision, UNFUSED, timed.unfused_us, {"of": of, "ranked": ranked})]
    for one in candidates:
        if one.tile in timed.us:
            guess = cost.predicted(problem.block, one.tile, problem.itemsize, problem.batch, *card)
            more = {"order": one.order, "predicted_us": rounded_us(guess)}
            found.append(_record(problem, precision, text_of(one.tile), timed.us[one.tile], more))
    return found


def medians(launches: Mapping[str, Callable[[], Any]], samples: int = SAMPLES) -> dict[str, float]:
    """Median µs of each launch, in CUDA graphs timed in alternation after a short warm-up. NoGpu on the simulator."""
    compared = timing.compare(
        {name: timing.Benchmark(call, warm_up_us=WARM_UP_US) for name, call in launches.items()}, samples=samples
    )
    return {name: compared[name].median_us for name in launches}


def measure(
    problem: Problem, precision: str, options: Options, console: Console, timer: search.Timer | None = None
) -> Measured:
    """(the records of a block, batch and precision; whether no tile was wrong)"""
    candidates, of = chosen(problem, options.ranked, options.random)
    if timer is None:
        timer = functools.partial(medians, samples=options.samples or SAMPLES)
    timed = search.time_tiles(problem, [one.tile for one in candidates], timer)
    for text in timed.wrong:
        console.print(f"{problem.block}: [red]wrong[/]: {escape(text)}", soft_wrap=True)
    best = min(timed.us.values(), default=float("nan"))
    console.print(
        f"{problem.block}, {precision}, batch {problem.batch}: {len(timed.us)} of {of} candidates timed, "
        f"{len(timed.failed)} failed; the fastest {best:,.2f} µs, separate kernels {timed.unfused_us:,.2f} µs",
        soft_wrap=True,
    )
    return records_of(problem, precision, candidates, of, timed), not timed.wrong


def problems(options: Options) -> list[tuple[Problem, str]]:
    """(problem, precision) of every block, batch and precision asked for."""
    return [
        (Problem(BLOCKS[block], batch, DTYPES[precision]), precision)
        for block in options.blocks
        for batch in options.batches
        for precision in options.precisions
    ]


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether no tile was wrong) per block, batch and precision. NoGpu on the simulator."""
    graphs.gpu()
    with on_stream():
        for problem, precision in problems(options):
            yield measure(problem, precision, options, console)


bench = driver.suite("candidates", run, lambda records: driver.same(records, "case", "precision", "batch"))
