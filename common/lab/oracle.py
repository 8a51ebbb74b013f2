"""An oracle for searches: the time of each tile of a block, as recorded on a card, or asked of this machine's card.

    oracle = recorded("14×14 96>576>96 +residual", "fp16", 256)
    oracle.tiles                    the tiles that can be asked for
    oracle.ask(tile)                its µs; counted
    oracle.curve()                  the best µs so far after 1, 2, 3, … questions
    oracle.best                     the fastest of all, to compare with

A question that was asked before costs nothing.
"""

from collections.abc import Callable, Mapping, Sequence

from ..cuda import graphs
from ..optimize import search
from ..optimize.generate import Tile
from ..optimize.tiles import Problem
from ..report import results, tables
from ..report.results import Results

SUITE = "candidates"


class Oracle:
    """Times of tiles, told one by one, and counted."""

    def __init__(
        self, tiles: Sequence[Tile], time: Callable[[Tile], float], ranking: Sequence[Tile], drawn: Sequence[Tile]
    ) -> None:
        """tiles: all. time: µs of one. ranking: the cost model's, the best first. drawn: a random sample of all."""
        if not tiles:
            raise ValueError("tiles must be at least one, got none")
        self.tiles, self.ranking, self.drawn = tuple(tiles), tuple(ranking), tuple(drawn)
        self._time, self._told = time, dict[Tile, float]()
        self._known = frozenset(tiles)

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


def cases(content: Results | None = None) -> list[tuple[str, str, int]]:
    """(block, precision, batch) of every recorded oracle."""
    content = results.load(tables.CARD) if content is None else content
    found = content.suite(SUITE)
    return list(dict.fromkeys((r["case"], r["precision"], r["batch"]) for r in found))


def recorded(block: str, precision: str, batch: int, content: Results | None = None) -> Oracle:
    """The oracle of a block's recorded tiles. ValueError if there is none."""
    content = results.load(tables.CARD) if content is None else content
    found = results.find(content, suite=SUITE, case=block, precision=precision, batch=batch)
    rows = [r for r in found if "tile" in r]
    if not rows:
        known = "; ".join(f"{one}, {p}, batch {b}" for one, p, b in cases(content)) or "none"
        raise ValueError(f"block, precision and batch must be one of {known}; got {block}, {precision}, batch {batch}")
    us: Mapping[Tile, float] = {Tile(**r["tile"]): r["us"] for r in rows}
    ranked = sorted(rows, key=lambda r: r["order"])
    return Oracle(
        list(us), us.__getitem__, [Tile(**r["tile"]) for r in ranked], [Tile(**r["tile"]) for r in rows if r["drawn"]]
    )


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
