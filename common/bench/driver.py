"""What the suites share: options, the run that records belong to, saving them as soon as they are measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..measure import environment
from ..measure.environment import Watch
from ..report import results
from ..report.results import Record

Measured = tuple[list[Record], bool]  # records, and whether all that was to be measured computed the right thing
Superseded = Callable[[Record], bool]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What every suite takes; where nothing is given, the suite chooses.

    batches: pictures at a time. samples: of each thing that is timed, at least 6, which an interval needs. save: into
    the results of this card; folder: of all cards' results, instead of the course's. ValueError names what does not
    fit, here and in the suites' own options. CHOICES: of a suite's fields, what they may hold (None: anything) and what
    they hold if nothing is given.
    """

    CHOICES: ClassVar[Mapping[str, tuple[tuple[Any, ...] | None, tuple[Any, ...]]]] = {}

    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    samples: int | None = None
    save: bool = False
    folder: Path | None = None

    def __post_init__(self) -> None:
        for batch in self.batches:
            if batch < 1:
                raise ValueError(f"batch must be at least 1, got {batch}")
        if self.samples is not None and self.samples < 6:
            raise ValueError(f"samples must be at least 6, got {self.samples}")
        for field, (known, default) in self.CHOICES.items():
            given = tuple("ours" if field == "backends" and one == "kernels" else one for one in getattr(self, field))
            object.__setattr__(self, field, choose(_NAMES.get(field) or field[:-1], given, known, default))


_NAMES = {"batches": "batch", "rungs": "backend"}  # of options whose fields are not just their plural


def choose(
    name: str, given: tuple[Any, ...], known: tuple[Any, ...] | None, default: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """What was given, each once, or else the default. ValueError for what is not known."""
    for value in given:
        if known is not None and value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")
    return tuple(dict.fromkeys(given)) or default


class Run:
    """One run of a suite in the results of this card: its records may be saved bit by bit."""

    def __init__(self, suite: str, watch: Watch | None = None, folder: Path | None = None) -> None:
        """The run is called <date>-<suite>-<commit>, and if there is such a run, with -2, -3, … after it.

        FileNotFoundError where there is no folder of results.
        """
        self._watch = watch
        here = environment.environment()
        self.path = results.path_of(here["card"], folder)
        first = f"{here['date']}-{suite}-{here['commit']}"
        taken, self.name, number = results.load(self.path).runs, first, 1
        while self.name in taken:
            number += 1
            self.name = f"{first}-{number}"

    def save(
        self,
        records: list[Record],
        superseded: Superseded = lambda r: False,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Add records, and what the clocks did until now. superseded: as for results.save; more: of the environment."""
        if records:
            results.save(self.path, self.name, {**environment.environment(self._watch), **more}, records, superseded)


def same(records: Iterable[Record], *keys: str, which: Callable[[Record], bool] = lambda r: True) -> Superseded:
    """Whether an older record agrees in these keys with one of the records: then it is what they replace."""
    now = {tuple(r.get(key) for key in keys) for r in records if which(r)}
    return lambda r: tuple(r.get(key) for key in keys) in now


def table(rows: Sequence[Mapping[str, str]], texts: int = 1, title: str = "") -> Table:
    """A table for the console: a line for each row; columns are the first row's keys, `texts` of them texts, first."""
    made = Table(title=title or None, title_justify="left", box=None)
    for i, name in enumerate(rows[0] if rows else ()):
        made.add_column(name, justify="left" if i < texts else "right", no_wrap=i >= texts)
    for row in rows:
        made.add_row(*map(escape, row.values()))
    return made


def cells(r: Record) -> dict[str, str]:
    """The columns of a table that say what a record's times and error are, µs."""
    return {
        "median µs": f"{r['median_us']:,.2f}" if r["median_us"] < 100 else f"{r['median_us']:,.1f}",
        "p5 – p95": f"{r['p5_us']:,.1f} – {r['p95_us']:,.1f}",
        "error": f"{r['error']:.1e}",
    }


def suite(
    name: str,
    run: Callable[[Any, Console], Iterable[Measured]],
    superseded: Callable[[list[Record]], Superseded] = lambda records: lambda r: False,
    conclude: Callable[[list[Record], Any, Console], None] = lambda records, options, console: None,
    more: Callable[[], Mapping[str, Any]] = dict,
) -> Callable[[Any, Console], bool]:
    """A suite's `bench(options, console)`: whether something was measured, and all of it computed the right thing.

    It measures and prints one group of `run` after the other, and saves each as soon as it is measured, if asked to.
    superseded: of a group's records, which older ones go. conclude: what is done with all records in the end. more:
    what the run's environment says besides.
    """

    def bench(options: Any, console: Console) -> bool:
        all_right = True
        every: list[Record] = []
        with Watch() as watch:
            keeper = Run(name, watch, options.folder) if options.save else None
            for records, right in run(options, console):
                all_right &= right
                every += records
                if keeper is not None:
                    keeper.save(records, superseded(records), more())
        conclude(every, options, console)
        if not every:
            console.print("nothing was timed")
        elif keeper is not None:
            console.print(f"saved as {keeper.name} in {keeper.path}", soft_wrap=True)
        return all_right and bool(every)

    return bench
