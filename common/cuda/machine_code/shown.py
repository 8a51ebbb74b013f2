"""An Inspection in a terminal and in a notebook: the source with the machine instructions of each line."""

import html
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..listing import BLUE, ORANGE, VERMILION, Line, Tint, highlighted, listing
from ..report import WIDTH
from . import mix

HOT, SPILL, OTHER = "↻", "✗", "·"
LEGEND = {
    HOT: "in the hot loop",
    OTHER: "elsewhere",
    SPILL: "uses local memory: registers that are spilled, or an array that has none",
}
TINTS = {HOT: Tint(ORANGE, 0.20), OTHER: Tint(BLUE, 0.12), SPILL: Tint(VERMILION, 0.22)}


def _mark(places: Mapping[str, Mapping[str, int]]) -> str:
    if any(kind.startswith(("LDL.", "STL.")) for kinds in places.values() for kind in kinds):
        return SPILL
    return HOT if "in the loop" in places else OTHER if places else ""


def as_text(found: Any) -> str:
    """The table of an Inspection as plain text."""
    return rendered(found)


def rendered(value: Any) -> str:
    """What Rich makes of a value, as plain text of WIDTH columns."""
    from rich.console import Console

    console = Console(width=WIDTH, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(value)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def table(found: Any) -> Any:
    """The lines of an Inspection that have machine code, for Rich."""
    from rich.console import Group
    from rich.table import Table

    rows = Table(title=found.title(), title_justify="left", box=None, pad_edge=False)
    rows.add_column("line", justify="right")
    for name in ("", "where", "instructions"):
        rows.add_column(name)
    for line in found.lines:
        places = found.by_place(line)
        for number, (place, kinds) in enumerate(places.items()):
            first = (str(line), _mark(places)) if number == 0 else ("", "")
            rows.add_row(*first, place, mix.sentence(kinds))
    return Group(rows, *found.summary(), mix.OTHERS)


def as_html(found: Any) -> str:
    """The source of an Inspection with the machine instructions below each line, for notebooks."""
    lines = []
    for number, code in excerpt(found.source, found.lines):
        places = found.by_place(number)
        notes = [
            f"{_mark({place: kinds})} {place}: {html.escape(mix.sentence(kinds))}" for place, kinds in places.items()
        ]
        lines.append(Line(str(number), code, TINTS.get(_mark(places)), notes))
    sentences = "".join(f"<div>{html.escape(sentence)}</div>" for sentence in found.summary())
    below = f"<div>{legend(lines)}</div><div>{mix.OTHERS}</div>"
    return f"<div><b>{html.escape(found.title())}</b>{sentences}{listing(lines)}{below}</div>"


def excerpt(source: str, lines: Collection[int]) -> Iterator[tuple[int, str]]:
    """(number, HTML) of the source's lines from the declaration of a kernel, above `lines`, to behind the last one."""
    first, last = min(lines, default=1), max(lines, default=1)
    text = source.rstrip("\n").splitlines()
    while first > 1 and "__global__" not in text[first - 1]:
        first -= 1
    if "__global__" not in text[first - 1]:
        first = min(lines, default=1)
    for number, code in enumerate(highlighted(source.rstrip("\n")), 1):
        if first <= number <= last + 1:
            yield number, code


def legend(lines: list[Line]) -> str:
    """The meaning of the tints that occur, as HTML."""
    used = [mark for mark in LEGEND if any(line.tint is TINTS[mark] for line in lines)]
    return " &nbsp; ".join(
        f"<span style='{TINTS[mark].style()};padding:0 0.4em'>{mark} {html.escape(LEGEND[mark])}</span>"
        for mark in used
    )
