"""Common code of the suites: options, the run that records belong to, saving records as soon as they are measured."""

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

Measured = tuple[list[Record], bool]  # records, and whether all results were correct
Superseded = Callable[[Record], bool]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every suite; None and () stand for the suite's defaults.

    batches: batch sizes. precisions: of results.PRECISIONS. samples: per benchmark, at least 6, which a confidence
    interval needs. save: whether to save into this card's results. folder: of all cards' results, by default the
    course's. CHOICES: by field of a subclass, (the allowed values, None for any; the default). ValueError, here and in
    subclasses, names the option and the values allowed.
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


_NAMES = {"batches": "batch", "rungs": "backend"}  # options whose names are not the singular of their fields


def choose(
    name: str, given: tuple[Any, ...], known: tuple[Any, ...] | None, default: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """The given values without repetitions, or the default if there are none. ValueError for a value not in `known`."""
    for value in given:
        if known is not None and value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(str, known))}, got {value!r}")
    return tuple(dict.fromkeys(given)) or default


class Run:
    """One run of a suite in this card's results; its records can be saved in several steps."""

    def __init__(self, suite: str, watch: Watch | None = None, folder: Path | None = None) -> None:
        """The run's name is <date>-<suite>-<commit>, followed by -2, -3, … if that run exists.

        FileNotFoundError if there is no folder of results.
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
        """Save records, and the watch's summary so far. superseded: as for results.save. more: of the environment."""
        if records:
            results.save(self.path, self.name, {**environment.environment(self._watch), **more}, records, superseded)


def same(records: Iterable[Record], *keys: str, which: Callable[[Record], bool] = lambda r: True) -> Superseded:
    """A predicate for older records: whether one of `records` has the same values of these keys, and so replaces it.

    which: the records to consider.
    """
    now = {tuple(r.get(key) for key in keys) for r in records if which(r)}
    return lambda r: tuple(r.get(key) for key in keys) in now


def table(rows: Sequence[Mapping[str, str]], texts: int = 1, title: str = "") -> Table:
    """A table for the console, one line per row. Columns: the first row's keys; the first `texts` are left-aligned."""
    result = Table(title=title or None, title_justify="left", box=None)
    for i, name in enumerate(rows[0] if rows else ()):
        result.add_column(name, justify="left" if i < texts else "right", no_wrap=i >= texts)
    for row in rows:
        result.add_row(*map(escape, row.values()))
    return result


def cells(r: Record) -> dict[str, str]:
    """The columns of a table with a record's times, in µs, and its error."""
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
    """Make a suite's `bench(options, console)`, which returns whether something was measured and all was correct.

    bench iterates over the groups of records that `run` yields and, with options.save, saves each at once.
    superseded: from a group's records, a predicate for the older ones to delete. conclude: is called with all records
    at the end. more: returns additions to the run's environment.
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
