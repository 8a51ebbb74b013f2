"""Solution regions: marked in the sources, replaced by one line in the learner's copy.

    def output_size(size, kernel):
        # BEGIN SOLUTION
        # write: the output's size along one dimension
        return size - kernel + 1
        # END SOLUTION

becomes

    def output_size(size, kernel):
        raise NotImplementedError("write: the output's size along one dimension")

In CUDA C++ the marks begin with `//`, and the region becomes the line `// write: …`. The markers are those of
nbgrader's ClearSolutions; unlike there, each region has a replacement text of its own.
"""

import json
import re
from dataclasses import dataclass

BEGIN, END, WRITE = "BEGIN SOLUTION", "END SOLUTION", "write:"
_MARK = re.compile(rf"^(?P<indent>[ \t]*)(?P<comment>#|//) ?(?P<mark>{BEGIN}|{END}|{WRITE})(?P<rest>.*)$")
_STUB = re.compile(r"""NotImplementedError\((?P<text>"write: (?:[^"\\]|\\.)*"|'write: (?:[^'\\]|\\.)*')\)""")


@dataclass(frozen=True)
class Region:
    """A region from BEGIN SOLUTION to END SOLUTION."""

    line: int  # of BEGIN SOLUTION, counted from 1
    indent: str
    write: tuple[str, ...]  # the text of each `write:` line
    solution: tuple[str, ...]  # the lines of the solution


def _split(text: str, cuda: bool) -> list[str | Region]:
    """The lines outside regions and the regions, in order. Raises ValueError for marks out of order."""
    parts: list[str | Region] = []
    begun: tuple[int, str] | None = None
    write: list[str] = []
    solution: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = _MARK.match(line)
        mark = found["mark"] if found and found["comment"] == ("//" if cuda else "#") else None
        if mark == BEGIN:
            if begun is not None:
                raise ValueError(f"line {number}: {BEGIN} within the region that begins in line {begun[0]}")
            assert found is not None
            begun, write, solution = (number, found["indent"]), [], []
        elif begun is None:
            if mark == END:
                raise ValueError(f"line {number}: {END} without {BEGIN}")
            parts.append(line)
        elif mark == END:
            if not write:
                raise ValueError(f"line {begun[0]}: the region has no line '{WRITE} …' that says what to write")
            if not cuda and len(write) > 1:
                raise ValueError(f"line {begun[0]}: the region has {len(write)} lines '{WRITE} …', one is expected")
            parts.append(Region(*begun, tuple(write), tuple(solution)))
            begun = None
        elif mark == WRITE:
            assert found is not None
            write.append(found["rest"].strip())
        else:
            solution.append(line)
    if begun is not None:
        raise ValueError(f"line {begun[0]}: {BEGIN} without {END}")
    return parts


def is_cuda(cell: str) -> bool:
    """Whether a notebook cell's text is CUDA C++, recognised by marks that begin with `//`."""
    return re.search(rf"^\s*// ?{BEGIN}", cell, re.M) is not None


def regions(text: str, cuda: bool = False) -> list[Region]:
    """The regions of a text, in order. Raises ValueError, naming the line, for marks out of order."""
    return [part for part in _split(text, cuda) if isinstance(part, Region)]


def strip(text: str, cuda: bool = False) -> str:
    """The learner's form of a text: each region replaced by its stub. Raises ValueError for marks out of order."""
    lines = []
    for part in _split(text, cuda):
        if isinstance(part, str):
            lines.append(part)
        elif cuda:
            lines += [f"{part.indent}// {WRITE} {task}" for task in part.write]
        else:
            quoted = json.dumps(f"{WRITE} {part.write[0]}", ensure_ascii=False)
            lines.append(f"{part.indent}raise NotImplementedError({quoted})")
    return "\n".join(lines)


def plain(text: str, cuda: bool = False) -> str:
    """A text with its solutions but without the marks. Raises ValueError for marks out of order."""
    lines: list[str] = []
    for part in _split(text, cuda):
        lines += [part] if isinstance(part, str) else part.solution
    return "\n".join(lines)


def fill(copy: str, source: str, cuda: bool = False) -> str:
    """A learner's copy with the stubs replaced by the regions of its source.

    Raises ValueError if the copy is not what `strip` makes of the source: a learner has changed it.
    """
    if copy != strip(source, cuda):
        raise ValueError("the copy is not the stub form of this source")
    return source


def is_stub(text: str) -> bool:
    """Whether a text still contains a stub."""
    return _STUB.search(text) is not None or re.search(rf"^\s*// {WRITE} ", text, re.M) is not None
