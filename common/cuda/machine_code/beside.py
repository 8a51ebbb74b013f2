"""The machine code beside a trace: which accesses of the source the compiler made wider, split, or removed.

The trace counts requests that were executed; the machine code lists each instruction once, however often it runs.
What can be compared are the widths of the accesses of a line, and that is what is compared.
"""

import html
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..listing import BLUE, ORANGE, Line, Tint, listing
from ..report import LineCounts, Report
from . import mix
from .shown import excerpt, rendered

# classes of instructions that make an access
INSTRUCTIONS = {
    ("shared", "load"): ("LDS", "LDSM", "LD"),
    ("shared", "store"): ("STS", "STSM", "LDGSTS", "ST"),
    ("global", "load"): ("LDG", "LDGSTS", "LD"),
    ("global", "store"): ("STG", "ST"),
}
SAME, DIFFERENT = "=", "≠"
TINTS = {SAME: Tint(BLUE, 0.12), DIFFERENT: Tint(ORANGE, 0.24)}
LEGEND = {SAME: "as wide as written", DIFFERENT: "the compiled kernel does something else"}
COMPARED = (
    "Compared are the widths of the accesses of each line. Requests are as traced; the machine code lists an"
    " instruction once, however often it runs."
)


@dataclass(frozen=True)
class Row:
    """The accesses of one kind by one line: as traced, as compiled, and the difference in words."""

    line: int
    access: str
    written: str
    compiled: str
    same: bool
    words: str


@dataclass(frozen=True)
class Comparison:
    """An Inspection, `found`, beside a trace's report: a row for each line and kind of access traced."""

    found: Any
    report: Report

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order of the lines. Atomic operations are not compared."""
        grouped: dict[tuple[int, str, str], list[LineCounts]] = {}
        for entry in self.report.lines:
            key = (entry.line, entry.counts.space, entry.kind)
            if key[1:] in INSTRUCTIONS:
                grouped.setdefault(key, []).append(entry)
        return tuple(self._row(*key, entries) for key, entries in grouped.items())

    def at(self, line: int) -> tuple[Row, ...]:
        """The rows of one line of the source."""
        return tuple(row for row in self.rows if row.line == line)

    def _row(self, line: int, space: str, kind: str, entries: list[LineCounts]) -> Row:
        names = INSTRUCTIONS[space, kind]
        kinds = Counter({k: n for k, n in self.found.lines.get(line, {}).items() if k.partition(".")[0] in names})
        sizes = Counter[int]()
        for entry in entries:
            sizes[entry.size] += entry.counts.requests
        written = ", ".join(f"{number:,} of {size} bytes" for size, number in sorted(sizes.items()))
        same, words = _difference(kind, set(sizes), kinds)
        return Row(line, f"{space} {kind}", f"requests: {written}", mix.sentence(kinds) or "none", same, words)

    def _title(self) -> str:
        return f"{self.found.kernel}: as written (traced) and as compiled for {self.found.arch}"

    def __str__(self) -> str:
        return rendered(self)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table(title=self._title(), title_justify="left", box=None, pad_edge=False)
        table.add_column("line", justify="right")
        for name in ("access", "as written", "as compiled", "", "difference"):
            table.add_column(name)
        for row in self.rows:
            mark = SAME if row.same else DIFFERENT
            table.add_row(str(row.line), row.access, row.written, row.compiled, mark, row.words)
        return Group(table, COMPARED)

    def _repr_html_(self) -> str:
        lines, rows = [], self.rows
        for number, code in excerpt(self.report.source, [*self.found.lines, *(row.line for row in rows)]):
            here = [row for row in rows if row.line == number]
            notes = [
                f"{SAME if row.same else DIFFERENT} {row.access}: {row.written}; machine code: {row.compiled}"
                f"{'' if row.same else f' — <b>{html.escape(row.words)}</b>'}"
                for row in here
            ]
            tint = TINTS[SAME if all(row.same for row in here) else DIFFERENT] if here else None
            lines.append(Line(str(number), code, tint, notes))
        legend = " &nbsp; ".join(
            f"<span style='{TINTS[mark].style()};padding:0 0.4em'>{mark} {LEGEND[mark]}</span>" for mark in LEGEND
        )
        return f"<div><b>{html.escape(self._title())}</b><div>{COMPARED}</div>{listing(lines)}<div>{legend}</div></div>"


def _bytes(kind: str) -> int:
    """Bytes per thread of an instruction; of a matrix load or store, 16 of each thread that gives an address."""
    name, _, width = kind.partition(".")
    return 16 if name in ("LDSM", "STSM") else int(width) // 8


def _difference(kind: str, sizes: set[int], kinds: Counter[str]) -> tuple[bool, str]:
    """(whether the widths are those of the source, the difference in words)."""
    widths = {_bytes(k) for k in kinds}
    if not widths:
        return False, f"this line has no {kind} of its own: the compiler has removed it or moved it to another line"
    if widths == sizes:
        return True, "as written"
    if len(sizes) == 1:
        (size,) = sizes
        if len(widths) == 1:
            (width,) = widths
            if width > size:
                return False, f"{width // size} {kind}s as written, 1 executed"
            return False, f"1 {kind} as written, {size // width} executed"
        wide = {w for w in widths if w > size}
        if wide and min(widths) >= size:
            most = sum(number for k, number in kinds.items() if _bytes(k) > size)
            number = " or ".join(str(w // size) for w in sorted(wide))
            total = sum(kinds.values())
            return False, f"{number} {kind}s as written, 1 executed, by {most} of the {total} instructions"
    return False, "other widths"
