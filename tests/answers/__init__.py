"""Right and wrong answers, which prove the checks: <chapter>/<exercise>.toml, and engine/<file>.toml for milestones.

    [wrong.no_guard]                    an answer that is to be refused, by its name
    expect = 'without an element'       what the message has to contain
    edits = [                           [old, new] in the solution, in order; an old text must stand in it once
        ['if (i >= n) return;', ''],
    ]

    [wrong.starts_at_one]
    expect = 'the first number of a row'
    regions = ['''                      what stands in the place of each marked region of the solution, in whole lines
        for (int c = 1; c < n; ++c) sum += in[c];
    ''']

    [right.without_a_loop]              another right answer
    text = '''…'''                      all of it

Edits are made in the solution's text without its marks (common/lab/markup.py).
"""

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.check import Exercise
from common.lab import markup

FOLDER = Path(__file__).parent
WAYS = ("edits", "regions", "text")


@dataclass(frozen=True)
class Answer:
    """One answer to an exercise: its name, its text, and what the message has to contain ("" for a right one)."""

    name: str
    text: str
    expect: str = ""


def wrong(exercise: Exercise) -> list[Answer]:
    """The answers that the check of an exercise has to refuse."""
    return read(_file(exercise), exercise.source, exercise.is_cuda)[0]


def right(exercise: Exercise) -> list[Answer]:
    """The answers besides the solution that the check of an exercise has to accept."""
    return read(_file(exercise), exercise.source, exercise.is_cuda)[1]


def _file(exercise: Exercise) -> Path:
    return FOLDER / exercise.folder.parents[1].name / f"{exercise.name}.toml"


@functools.cache
def read(path: Path, source: str, cuda: bool = False) -> tuple[list[Answer], list[Answer]]:
    """(the wrong answers, the right ones) of a file.

    source: the solution with its marks. Raises ValueError, naming the answer, for one that does not fit it.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[Answer]] = {"wrong": [], "right": []}
    if unknown := content.keys() - found:
        raise ValueError(f"{path.name}: has {sorted(unknown)}, expected wrong and right alone")
    for kind, entries in content.items():
        for name, entry in entries.items():
            keys = {"expect"} if kind == "wrong" else set()
            try:
                if entry.keys() - set(WAYS) != keys or len(entry.keys() & set(WAYS)) != 1:
                    raise ValueError(f"has {sorted(entry)}, expected {[*keys, 'one of ' + ', '.join(WAYS)]}")
                found[kind].append(Answer(name, _text(entry, source, cuda), entry.get("expect", "")))
            except ValueError as error:
                raise ValueError(f"{path.name}, {kind}.{name}: {error}") from None
    return found["wrong"], found["right"]


def _text(entry: dict[str, Any], source: str, cuda: bool) -> str:
    if "text" in entry:
        return entry["text"]
    return (
        _with_regions(source, entry["regions"], cuda) if "regions" in entry else _edited(source, entry["edits"], cuda)
    )


def _edited(source: str, edits: list[list[str]], cuda: bool) -> str:
    text = markup.plain(source, cuda)
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands {text.count(old)} times in the solution, expected once")
        text = text.replace(old, new)
    return text


def _with_regions(source: str, texts: list[str], cuda: bool) -> str:
    lines, regions = source.split("\n"), markup.regions(source, cuda)
    if len(texts) != len(regions):
        raise ValueError(f"has {len(texts)} regions, expected {len(regions)} as in the solution")
    for region, text in reversed(list(zip(regions, texts, strict=True))):
        marks = 2 + len(region.write)
        lines[region.line - 1 : region.line - 1 + marks + len(region.solution)] = text.splitlines()
    return "\n".join(lines)
