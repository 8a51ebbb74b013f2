"""The report of a traced launch: requests, sectors, bank conflicts and races per line; for terminals and notebooks."""

import html
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .listing import BLUE, ORANGE, VERMILION, Line, Tint, highlighted, listing, mixed

SECTOR = 32  # bytes
BANKS = 32  # of 4 bytes each
WIDTH = 95  # columns of a report in a terminal


@dataclass(frozen=True)
class Counts:
    """The counts of one kind of access.

    space      "global" or "shared"
    requests   warp instructions
    accesses   accesses of single threads
    units      32-byte sectors (global memory) or wavefronts, passes over the banks (shared memory)
    ideal      units if the same bytes were contiguous
    bytes      bytes that the threads requested
    """

    space: str = "global"
    requests: int = 0
    accesses: int = 0
    units: int = 0
    ideal: int = 0
    bytes: int = 0

    @property
    def sectors(self) -> int:
        """32-byte sectors transferred. AttributeError for shared memory."""
        return self._units_of("global", "sectors")

    @property
    def wavefronts(self) -> int:
        """Passes over the banks. AttributeError for global memory."""
        return self._units_of("shared", "wavefronts")

    def _units_of(self, space: str, name: str) -> int:
        if self.space != space:
            raise AttributeError(f"{name} are counted in {space} memory, these accesses are to {self.space} memory")
        return self.units

    @property
    def conflicts(self) -> int:
        """units − ideal: sectors or wavefronts in excess of contiguous access."""
        return self.units - self.ideal

    def __add__(self, other: "Counts") -> "Counts":
        return replace(
            self,
            requests=self.requests + other.requests, accesses=self.accesses + other.accesses,
            units=self.units + other.units, ideal=self.ideal + other.ideal, bytes=self.bytes + other.bytes,
        )  # fmt: skip


@dataclass(frozen=True)
class LineCounts:
    """The accesses of one kind and size by one line of the source to one array.

    warps, lanes: bit masks of the warps of a block and the lanes of a warp that made them, over all traced blocks.
    """

    line: int
    array: str
    kind: str  # "load", "store", "atomic"
    size: int  # bytes per access
    counts: Counts
    warps: int = 0
    lanes: int = 0


@dataclass(frozen=True)
class Finding:
    """A mistake of the kernel, even if it has no effect on the simulator.

    kind               "race", "out-of-bounds", "uninitialised-read", "divergent-barrier", "deadlock", "misaligned",
                       "absent-block" (shared memory of a block of the cluster that may not have started or may have
                       returned), "stopped" (a trap, an assertion, an endless loop, a stack overflow); in Report.missed
                       "missed-barrier"
    line, other_line   of the source; 0 if unknown
    message            the finding in words
    threads, blocks    (x, y, z) of the first ones involved
    array, index       of the access; index in elements
    count              number of occurrences
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
        return f"{self.kind}, line {self.line}: {self.message}" if self.line else f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Uninitialised:
    """A local variable that the compiler warns may be read in `line` of the source before a value is stored in it.

    The warning may be a false positive, and arrays are seldom covered.
    """

    variable: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.variable} has no value yet"


@dataclass(frozen=True)
class Request:
    """One request of a warp.

    kind: "load", "store" or "atomic". size: bytes per lane. space: "global" or "shared". warp: its index in the block.
    offsets: (32,) int64, bytes from the start of the array for each lane; −1 for inactive lanes.
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
    """The report of a traced launch. Counts are those of the source: no caches, no accesses merged by ptxas."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    traced_blocks: int
    source: str = field(repr=False)
    lines: tuple[LineCounts, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    requests: tuple[Request, ...] = field(repr=False)
    uninitialised: tuple[Uninitialised, ...] = ()  # hints for a wrong result, not findings
    # barriers that some threads, having returned, did not reach; not findings
    missed: tuple[Finding, ...] = field(default=(), repr=False)
    # the most bytes of bulk copies (kernels/include/bulk.h) that a block had asked for and that had not come yet
    bytes_in_flight: int = field(default=0, repr=False)

    def _total(self, space: str, kind: str) -> Counts:
        chosen = (entry.counts for entry in self.lines if entry.counts.space == space and entry.kind == kind)
        return sum(chosen, Counts(space))

    @property
    def global_loads(self) -> Counts:
        """The sum of all loads from global memory."""
        return self._total("global", "load")

    @property
    def global_stores(self) -> Counts:
        """The sum of all stores to global memory."""
        return self._total("global", "store")

    @property
    def shared_loads(self) -> Counts:
        """The sum of all loads from shared memory."""
        return self._total("shared", "load")

    @property
    def shared_stores(self) -> Counts:
        """The sum of all stores to shared memory."""
        return self._total("shared", "store")

    @property
    def atomics(self) -> dict[str, Counts]:
        """{"global": …, "shared": …}: the sums of all atomic operations, counted like stores."""
        return {space: self._total(space, "atomic") for space in ("global", "shared")}

    def at(self, line: int) -> tuple[LineCounts, ...]:
        """The counts of one line of the source."""
        return tuple(entry for entry in self.lines if entry.line == line)

    def _title(self) -> str:
        used = max((i for i in range(3) if self.block[i] > 1), default=0) + 1
        size = "×".join(map(str, self.block[:used]))
        return f"{self.kernel}: {_many(self.traced_blocks, 'block')} of {size} threads traced"

    # ---- In a terminal
    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=WIDTH, force_terminal=False, color_system=None)
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
        """The source with the counts below each line; excess sectors or wavefronts and findings are marked."""
        findings = "".join(
            f"<div><b style='color:{mixed(VERMILION)}'>✗ {f.kind}</b>{f', line {f.line}' if f.line else ''}: "
            f"{html.escape(f.message)}</div>"
            for f in self.findings
        )
        lines = [self._line(number, code) for number, code in enumerate(highlighted(self.source.rstrip("\n")), 1)]
        used = [mark for mark in LEGEND if any(line.tint is TINTS[mark] for line in lines)]
        legend = " &nbsp; ".join(
            f"<span style='{TINTS[mark].style()};padding:0 0.4em'>{mark} {LEGEND[mark]}</span>" for mark in used
        )
        return f"<div><b>{html.escape(self._title())}</b>{findings}{listing(lines)}<div>{legend}</div></div>"

    def _line(self, number: int, code: str) -> Line:
        entries = self.at(number)
        notes = [f"{WRONG} {_short(f, number)}" for f in self.findings if number in (f.line, f.other_line)]
        mark = WRONG if notes else WASTE if any(e.counts.conflicts for e in entries) else FINE if entries else ""
        return Line(str(number), code, TINTS.get(mark), [*notes, *map(_note_html, entries)])

    def picture(self, line: int, request: int = 0, kind: str | None = None, array: str | None = None) -> Any:
        """A Matplotlib figure of one request: the address in the array, or the bank, that each thread accesses.

        line: of the source. request: index (0–7) among the recorded requests of the lowest-numbered traced block.
        kind ("load", "store", "atomic") and array select among several accesses of the line.
        ValueError if there is no such request.
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


FINE, WASTE, WRONG = "·", "▲", "✗"
LEGEND = {
    FINE: "no more sectors or wavefronts than the bytes need",
    WASTE: "more sectors or wavefronts than the bytes need",
    WRONG: "a mistake",
}
TINTS = {FINE: Tint(BLUE, 0.14), WASTE: Tint(ORANGE, 0.24), WRONG: Tint(VERMILION, 0.22)}


def _note_html(e: LineCounts) -> str:
    c = e.counts
    units = _many(c.units, "sector" if c.space == "global" else "wavefront")
    mark, best = (WASTE, f", <b>{c.ideal} would do ({c.units / c.ideal:.3g}×)</b>") if c.conflicts else (FINE, "")
    return f"{mark} {e.kind} {html.escape(e.array)}: {_many(c.requests, 'request')}, {units}{best}"


def _short(f: Finding, line: int) -> str:
    """A finding as shown below one of its lines: its kind, and the number of the other line, if any."""
    other = f.other_line if line == f.line else f.line
    return f.kind + (f" with line {other}" if other and other != line else "")


def merge_lines(entries: Iterable[LineCounts]) -> tuple[LineCounts, ...]:
    """Entries of the same line, memory space, kind, array and size summed, in the order of the source."""
    merged: dict[tuple, LineCounts] = {}
    for e in entries:
        key = (e.line, e.counts.space, e.kind, e.array, e.size)
        if known := merged.get(key):
            e = replace(
                e, counts=known.counts + e.counts, warps=known.warps | e.warps, lanes=known.lanes | e.lanes
            )  # fmt: skip
        merged[key] = e
    order = {"load": 0, "store": 1, "atomic": 2}
    return tuple(merged[key] for key in sorted(merged, key=lambda k: (k[0], order[k[2]], k[3], k[4])))
