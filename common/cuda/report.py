"""What a traced launch tells, line by line: requests, sectors, bank conflicts, races; in a terminal and a notebook."""

import html
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

SECTOR = 32  # bytes
BANKS = 32  # of 4 bytes each


@dataclass(frozen=True)
class Counts:
    """How a kind of access was served.

    requests: warp instructions. accesses: threads that took part. bytes: what they asked for.
    units: 32-byte sectors (global memory) or wavefronts, passes over the banks (shared memory).
    ideal: units if the same bytes lay side by side. conflicts: units − ideal.
    """

    space: str = "global"
    requests: int = 0
    accesses: int = 0
    units: int = 0
    ideal: int = 0
    bytes: int = 0

    @property
    def sectors(self) -> int:
        return self._units_of("global", "sectors")

    @property
    def wavefronts(self) -> int:
        return self._units_of("shared", "wavefronts")

    def _units_of(self, space: str, name: str) -> int:
        if self.space != space:
            raise AttributeError(f"{name} are counted in {space} memory, these accesses are to {self.space} memory")
        return self.units

    @property
    def conflicts(self) -> int:
        return self.units - self.ideal

    def __add__(self, other: "Counts") -> "Counts":
        return replace(
            self,
            requests=self.requests + other.requests, accesses=self.accesses + other.accesses,
            units=self.units + other.units, ideal=self.ideal + other.ideal, bytes=self.bytes + other.bytes,
        )  # fmt: skip


@dataclass(frozen=True)
class LineCounts:
    """The accesses of one kind that one line of the source makes to one array."""

    line: int
    array: str
    kind: str  # "load", "store", "atomic"
    size: int  # bytes an access
    counts: Counts


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or would be on a GPU.

    kind: "race", "out-of-bounds", "uninitialised-read", "divergent-barrier", "deadlock", "misaligned" or "absent-block"
    (shared memory of a block of the cluster that may not have started, or may have returned).
    line, other_line: in the source; 0 if unknown. threads, blocks: (x, y, z) of those concerned, the
    first that were seen.
    array, index: of the access; index in elements. count: how often it was seen. message: all of that in words.
    """

    kind: str
    line: int
    message: str
    threads: tuple[tuple[int, int, int], ...] = ()
    blocks: tuple[tuple[int, int, int], ...] = ()
    array: str | None = None
    index: int | None = None
    other_line: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.kind}, line {self.line}: {self.message}"


@dataclass(frozen=True)
class Request:
    """One request of a warp: which byte of the array each lane asked for.

    offsets: (32,) int64, bytes from the array's start, −1 for lanes that took no part.
    """

    line: int
    array: str
    kind: str
    size: int
    space: str
    block: tuple[int, int, int]
    warp: int
    offsets: np.ndarray


@dataclass(frozen=True)
class Report:
    """A traced launch. Counts are as the source is written: no cache, no merging of accesses by the assembler."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    traced_blocks: int
    source: str = field(repr=False)
    lines: tuple[LineCounts, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    requests: tuple[Request, ...] = field(repr=False)

    def _total(self, space: str, kind: str) -> Counts:
        chosen = (entry.counts for entry in self.lines if entry.counts.space == space and entry.kind == kind)
        return sum(chosen, Counts(space))

    @property
    def global_loads(self) -> Counts:
        return self._total("global", "load")

    @property
    def global_stores(self) -> Counts:
        return self._total("global", "store")

    @property
    def shared_loads(self) -> Counts:
        return self._total("shared", "load")

    @property
    def shared_stores(self) -> Counts:
        return self._total("shared", "store")

    @property
    def atomics(self) -> dict[str, Counts]:
        """{"global": …, "shared": …}: read-modify-writes, counted like stores."""
        return {space: self._total(space, "atomic") for space in ("global", "shared")}

    def at(self, line: int) -> tuple[LineCounts, ...]:
        """The counts of one line of the source."""
        return tuple(entry for entry in self.lines if entry.line == line)

    def _title(self) -> str:
        size = "×".join(map(str, self.block))
        return f"{self.kernel}: {_many(self.traced_blocks, 'block')} of {size} threads traced"

    # ---- In a terminal
    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, force_terminal=False, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return "\n".join(line.rstrip() for line in capture.get().splitlines())

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table(
            title=self._title(),
            title_justify="left", box=None, pad_edge=False,
        )  # fmt: skip
        table.add_column("line", justify="right")
        for name in ("access", "array"):
            table.add_column(name)
        for name in ("bytes each", "requests", "sectors", "wavefronts", "ideal", "per request"):
            table.add_column(name, justify="right")
        for e in self.lines:
            c = e.counts
            table.add_row(
                str(e.line), f"{c.space} {e.kind}", e.array, str(e.size), str(c.requests),
                str(c.units) if c.space == "global" else "", str(c.units) if c.space == "shared" else "",
                str(c.ideal), f"{c.units / c.requests:.2f}",
            )  # fmt: skip
        return Group(table, *(f"! {finding}" for finding in self.findings))

    # ---- In a notebook
    def _repr_html_(self) -> str:
        """The source with the counts beside each line; hot lines shaded, wrong lines marked."""
        by_line: dict[int, list[LineCounts]] = {}
        for e in self.lines:
            by_line.setdefault(e.line, []).append(e)
        wrong = {f.line for f in self.findings} | {f.other_line for f in self.findings}
        worst = max((e.counts.units for e in self.lines), default=1)
        rows = []
        for number, text in enumerate(self.source.splitlines(), 1):
            entries = by_line.get(number, [])
            notes = "<br>".join(html.escape(_note(e)) for e in entries)
            heat = max((e.counts.units / worst for e in entries), default=0.0)
            wasteful = any(e.counts.units > e.counts.ideal for e in entries)
            background = f"rgba(230,120,0,{0.08 + 0.3 * heat:.2f})" if wasteful else (
                f"rgba(0,110,200,{0.04 + 0.14 * heat:.2f})" if entries else "transparent"
            )  # fmt: skip
            mark = "<b style='color:#c00'>✗</b>" if number in wrong else ""
            rows.append(
                f"<tr style='background:{background}'>"
                f"<td style='text-align:right;color:#888'>{number}</td><td>{mark}</td>"
                f"<td style='text-align:left;white-space:pre'>{html.escape(text)}</td>"
                f"<td style='text-align:left;white-space:nowrap;padding-left:2em'>{notes}</td></tr>"
            )
        problems = "".join(f"<li><b>{f.kind}</b>, line {f.line}: {html.escape(f.message)}</li>" for f in self.findings)
        return (
            f"<div><b>{html.escape(self._title())}</b>"
            "<table style='font-family:monospace;font-size:90%;border-collapse:collapse;margin:0.5em 0'>"
            f"{''.join(rows)}</table>" + (f"<ul style='color:#a00'>{problems}</ul>" if problems else "") + "</div>"
        )

    def picture(self, line: int, request: int = 0, kind: str | None = None, array: str | None = None) -> Any:
        """A Matplotlib figure of one request: which thread touches which address of the array, or which bank.

        line: of the source. request: the how-manieth that was kept (0 … 7), of the lowest traced block.
        kind ("load", "store", "atomic") and array narrow down a line that has several.
        ValueError if no such request was made.
        """
        from .picture import draw

        chosen = [
            r for r in self.requests
            if r.line == line and kind in (None, r.kind) and array in (None, r.array)
        ]  # fmt: skip
        if not 0 <= request < len(chosen):
            raise ValueError(
                f"line {line} made {len(chosen)} such requests that were kept, number {request} is none of them"
            )
        return draw(chosen[request], self.kernel)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _note(e: LineCounts) -> str:
    c = e.counts
    unit = "sector" if c.space == "global" else "wavefront"
    best = "" if c.units == c.ideal else f", {c.ideal} would do"
    return f"{e.kind} {e.array}: {_many(c.requests, 'request')}, {_many(c.units, unit)}{best}"


def merge_lines(entries: Iterable[LineCounts]) -> tuple[LineCounts, ...]:
    """Entries of the same line, array, kind and size added up, in the order of the source."""
    merged: dict[tuple, LineCounts] = {}
    for e in entries:
        key = (e.line, e.counts.space, e.kind, e.array, e.size)
        merged[key] = replace(e, counts=merged[key].counts + e.counts) if key in merged else e
    order = {"load": 0, "store": 1, "atomic": 2}
    return tuple(merged[key] for key in sorted(merged, key=lambda k: (k[0], order[k[2]], k[3], k[4])))
