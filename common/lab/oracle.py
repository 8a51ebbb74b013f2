"""An oracle for searches: the time of each tile of a block, as recorded on a card, or asked of this machine's card.

    oracle = recorded("14×14 96>576>96 +residual", "fp16", 256)
    oracle = computed(block, "fp16", 256)       where nothing was recorded: the cost model's µs, for practice
    oracle = of(block, "fp16", 256)             recorded if there is a record, else computed
    oracle.source                   where its µs come from, in words
    oracle.tiles                    the tiles that can be asked for
    oracle.sample()                 the same with a random sample of all candidates alone
    oracle.ask(tile)                its µs; counted
    oracle.near(tile)               the tiles that differ least from it
    oracle.curve()                  the best µs so far after 1, 2, 3, … questions
    oracle.best                     the fastest of all, to compare with

A question that was asked before costs nothing.
"""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..bench.candidates import tile_of
from ..cuda import graphs
from ..optimize import cost, search
from ..optimize.generate import Block, Geometry, Tile
from ..optimize.tiles import Problem
from ..report import results, tables
from ..report.results import Results

SUITE = "candidates"
ITEMSIZES = {"fp32": 4, "fp16": 2}
# the fields of a tile that a search is free to choose; the others follow from them (cost.within_registers)
FIELDS = ("tile_h", "tile_w", "images", "slice", "split", "strip", "stages", "warps", "pixel_warps", "blocks")
NEAR = 6  # tiles that count as near a tile
H200 = 132, 232_448  # multiprocessors, bytes of shared memory per thread block
COMMAND = "python -m common bench candidates --save"


class Oracle:
    """Times of tiles, told one by one, and counted."""

    def __init__(
        self,
        tiles: Sequence[Tile],
        time: Callable[[Tile], float],
        ranking: Sequence[Tile],
        drawn: Sequence[Tile],
        source: str = "",
        separate_us: float = math.inf,
        of: int | None = None,
    ) -> None:
        """tiles: all. time: µs of one. ranking: the cost model's, the best first. drawn: a random sample of all.

        source: where the µs come from, in words. separate_us: of the separate kernels. of: how many candidates the
        block has, of which `tiles` are a part; None if there are no others.
        """
        if not tiles:
            raise ValueError("tiles must be at least one, got none")
        self.tiles, self.ranking, self.drawn = tuple(tiles), tuple(ranking), tuple(drawn)
        self.source, self.separate_us = source, separate_us
        self.of = len(tiles) if of is None else of
        self._time, self._told = time, dict[Tile, float]()
        self._known = frozenset(tiles)

    def sample(self) -> "Oracle":
        """An oracle of the random sample alone; of all tiles if there is none. Nothing in it was chosen by a model."""
        tiles = self.drawn or self.tiles
        return Oracle(tiles, self._time, (), tiles, self.source, self.separate_us, self.of)

    @property
    def asked(self) -> int:
        """How many different tiles were asked for."""
        return len(self._told)

    def ask(self, tile: Tile) -> float:
        """The µs of a tile. ValueError for a tile that is not among `tiles`."""
        if tile not in self._known:
            raise ValueError(f"tile must be one of this oracle's {len(self.tiles)} tiles, got {tile}")
        if tile not in self._told:
            self._told[tile] = self._time(tile)
        return self._told[tile]

    def near(self, tile: Tile, count: int = NEAR) -> list[Tile]:
        """The `count` tiles that differ least from this one, the nearest first: octaves apart, over FIELDS."""
        here = numbers(tile)

        def apart(other: Tile) -> float:
            return sum(abs(a - b) for a, b in zip(numbers(other), here, strict=True))

        return heapq.nsmallest(count, (other for other in self.tiles if other != tile), key=apart)

    def curve(self) -> list[float]:
        """The best µs after each question, in their order."""
        best, found = float("inf"), []
        for us in self._told.values():
            best = min(best, us)
            found.append(best)
        return found

    def forget(self) -> None:
        """Begin a new search: nothing was asked."""
        self._told.clear()

    @property
    def best(self) -> float:
        """The shortest µs of all tiles. Not counted: no search may use it."""
        return min(self._time(tile) for tile in self.tiles)


def numbers(tile: Tile) -> list[float]:
    """The logarithm to base 2 of each of FIELDS."""
    return [math.log2(getattr(tile, field)) for field in FIELDS]


def counted(block: Block, tile: Tile, precision: str, batch: int, card: tuple[int, int] = H200) -> dict[str, float]:
    """What a cost model can count of a tile without a measurement. card: as of `computed`.

    launched, at_once   thread blocks of the launch, and how many of them run at the same time on the card
    resident            of those, on one multiprocessor
    warps, slices       of a thread block: its warps, and the slices of hidden channels that it goes through
    expand, depthwise, project   multiply-adds of a thread block, halos and the rest of tiles of 16 pixels included
    weights, inputs, outputs     bytes that a thread block loads or stores
    """
    processors, memory = card
    g = Geometry(block, tile, ITEMSIZES[precision])
    slices, channels = g.slices, g.slices * tile.slice
    resident = cost.resident_blocks(g, memory, tile.blocks)
    rows_in, rows_out = (16 * math.ceil(n / 16) for n in (g.pixels_in, g.pixels_out))
    return {
        "launched": math.ceil(batch / tile.images) * g.tiles * tile.split, "at_once": resident * processors,
        "resident": resident, "warps": tile.warps, "slices": slices,
        "expand": rows_in * g.k_padded * channels, "depthwise": 9 * g.pixels_out * channels,
        "project": rows_out * g.o_padded * channels,
        "weights": g.stage_bytes * slices, "inputs": g.x_bytes, "outputs": g.pixels_out * g.o_padded * g.itemsize,
    }  # fmt: skip


def curves(oracle: Oracle, search: Callable[[random.Random], object], count: int = 25) -> list[list[float]]:
    """`count` runs of a search, each from an own random seed and with nothing asked before: their budget curves."""
    found = []
    for seed in range(count):
        oracle.forget()
        search(random.Random(seed))
        found.append(oracle.curve())
    oracle.forget()
    return found


def cases(content: Results | None = None) -> list[tuple[str, str, int]]:
    """(block, precision, batch) of every recorded oracle."""
    content = results.load(tables.CARD) if content is None else content
    found = content.suite(SUITE)
    return list(dict.fromkeys((r["case"], r["precision"], r["batch"]) for r in found))


def recorded(block: str, precision: str, batch: int, content: Results | None = None) -> Oracle:
    """The oracle of a block's recorded tiles. ValueError if there is none."""
    content = results.load(tables.CARD) if content is None else content
    found = results.find(content, suite=SUITE, case=block, precision=precision, batch=batch)
    rows = [r for r in found if "order" in r]
    if not rows:
        known = "; ".join(f"{one}, {p}, batch {b}" for one, p, b in cases(content)) or "none"
        raise ValueError(f"block, precision and batch must be one of {known}; got {block}, {precision}, batch {batch}")
    [separate] = [r for r in found if "order" not in r]
    ranked = sorted(rows, key=lambda r: r["order"])
    us: Mapping[Tile, float] = {tile_of(r["implementation"]): r["us"] for r in ranked}
    source = f"µs recorded: {tables.card_and_date(content, rows)}"
    drawn = _drawn([r["order"] for r in ranked], separate["ranked"], separate["of"])
    sample = [tile for tile, r in zip(us, ranked, strict=True) if r["order"] in drawn]
    return Oracle(list(us), us.__getitem__, list(us), sample, source, separate["us"], separate["of"])


def _drawn(orders: Sequence[int], ranked: int, of: int) -> set[int]:
    """Those of the recorded places in the ranking that are a random sample of all `of` places.

    Behind the `ranked` first ones, all that were recorded: those were drawn at random. Of the first ones, which were
    all recorded, as large a share.
    """
    behind = [order for order in orders if order > ranked]
    first = [order for order in orders if order <= ranked]
    share = len(behind) / max(of - ranked, 1)
    return {*behind, *random.Random(0).sample(first, min(round(share * len(first)), len(first)))}


def _grid(block: Block) -> Iterator[Tile]:
    """Tiles of a plain grid over the fields, some hundreds of them; some do not fit."""
    out_h, out_w = block.out_size
    heights = [n for n in (2, 4, 7, 14) if n <= out_h]
    widths = [n for n in (7, 14, 28) if n <= out_w]
    for h, w, groups, planes, wp in itertools.product(heights, widths, (1, 2, 3, 6), (1, 2, 3), (1, 2)):
        if h * w <= 196 and groups * wp >= 2:
            for blocks, keeps in itertools.product((1, 2, 4), (False, True)):
                yield Tile(
                    h, w, slice=16 * groups * planes, strip=min(h, 7), warps=groups * wp, pixel_warps=wp,
                    blocks=blocks, persistent=blocks if keeps else 0,
                )  # fmt: skip


def computed(block: Block, precision: str, batch: int, card: tuple[int, int] = H200) -> Oracle:
    """An oracle whose µs are computed by the cost model (optimize/cost.py): nothing in it was measured.

    It is for practice and for checks, which must run on any machine. Of a search it shows how many questions the
    search needs; of the cost model it shows nothing.
    precision: "fp32" or "fp16". card: (multiprocessors, bytes of shared memory per thread block).
    """
    if precision not in ITEMSIZES:
        raise ValueError(f"precision must be one of {', '.join(ITEMSIZES)}, got {precision!r}")
    itemsize, (processors, memory) = ITEMSIZES[precision], card
    us: dict[Tile, float] = {}
    for tile in _grid(block):
        g = Geometry(block, tile, itemsize)
        if g.problem(memory) is None and cost.resident_blocks(g, memory, tile.blocks) == tile.blocks:
            us[tile] = cost.predicted(block, tile, itemsize, batch, *card)
    source = f"µs computed by the cost model for {processors} multiprocessors: nothing was measured"
    return Oracle(list(us), us.__getitem__, (), (), source)


def of(block: Block, precision: str, batch: int, content: Results | None = None) -> Oracle:
    """The recorded oracle of a block, else the computed one, whose source names the command that records."""
    if (str(block), precision, batch) in cases(content):
        return recorded(str(block), precision, batch, content)
    one = computed(block, precision, batch)
    one.source += f" (on a GPU, `{COMMAND}` measures)"
    return one


def of_this_card(problem: Problem, tiles: Sequence[Tile], timer: search.Timer | None = None) -> Oracle:
    """An oracle that compiles, checks and times a tile on this machine's card when it is asked.

    tiles: in the order of the cost model's ranking. A tile that is wrong or does not run takes infinitely long.
    timer: as for search.time_tiles. NoGpu on the simulator without a timer.
    """
    if timer is None:
        graphs.gpu()
    told: dict[Tile, float] = {}

    def time(tile: Tile) -> float:
        if tile not in told:
            told[tile] = search.time_tiles(problem, [tile], timer).us.get(tile, float("inf"))
        return told[tile]

    return Oracle(tiles, time, tiles, ())
