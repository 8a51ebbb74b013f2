"""Text between markers that is made from results files, in README files and in Markdown cells of notebooks.

A table stands on lines of its own, a number within a line:

    <!-- generated: network-peers -->
    | … |
    <!-- /generated -->

    copies at <!-- generated: peak-copy -->4.31 TB/s<!-- /generated --> here

`known` are the functions that make the texts, by name: tables.texts(). `run(True, known)` names what is stale,
`run(False, known)` writes it anew.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import replacing
from .results import course

Known = Mapping[str, Callable[[], str]]

_OPENING, _CLOSING = re.compile(r"<!-- generated: (\S+) -->"), "<!-- /generated -->"


# ---- One text with markers


def parts(markdown: str) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of what stands between each pair of markers, the newlines of a block not counted in.

    ValueError for a marker without its counterpart.
    """
    after = 0
    while (opening := _OPENING.search(markdown, after)) is not None:
        name, start = opening[1], opening.end()
        end = markdown.find(_CLOSING, start)
        following = _OPENING.search(markdown, start)
        if end < 0 or (following is not None and following.start() < end):
            raise ValueError(f"<!-- generated: {name} --> has no {_CLOSING} behind it")
        if _CLOSING in markdown[after : opening.start()]:
            raise ValueError(f"{_CLOSING} before <!-- generated: {name} --> closes nothing")
        after = end + len(_CLOSING)
        block = markdown[start] == "\n" == markdown[end - 1]  # in an empty one, both are the same newline
        yield (name, start + 1, end - 1) if block else (name, start, end)
    if _CLOSING in markdown[after:]:
        raise ValueError(f"the last {_CLOSING} closes nothing")


def between(markdown: str, name: str) -> list[str]:
    """What stands between the markers of this name, wherever they are."""
    return [markdown[start:end] for found, start, end in parts(markdown) if found == name]


def filled(markdown: str, made: Mapping[str, str]) -> str:
    """The text with each marked part that is in `made` replaced. ValueError for a table within a line."""
    pieces, after = [], 0
    for name, start, end in parts(markdown):
        if name not in made:
            continue
        if "\n" in made[name] and markdown[start - 1] != "\n":
            raise ValueError(f"{name} has several lines: its markers must stand on lines of their own")
        pieces += [markdown[after:start], made[name]]
        after = end
    return "".join([*pieces, markdown[after:]])


# ---- Files


def files(root: Path) -> list[Path]:
    """Every README.md and notebook below a folder that holds a marker; hidden folders and environments are left out."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [
            name for name in below if not name.startswith(".") and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        paths = [Path(folder) / name for name in names if name == "README.md" or name.endswith(".ipynb")]
        found += [path for path in paths if _OPENING.search(path.read_text(encoding="utf-8"))]
    return sorted(found)


def dumped(notebook: dict[str, Any]) -> str:
    """A notebook as Jupyter writes it to a file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def markdown_cells(path: Path, content: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(a notebook, its Markdown cells). ValueError if it could not be written back byte for byte."""
    notebook = json.loads(content)
    if dumped(notebook) != content:
        raise ValueError(f"{path.name} is not written as Jupyter writes notebooks: open and save it there")
    return notebook, [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]


def source(cell: dict[str, Any]) -> str:
    """The text of a notebook's cell."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def set_source(cell: dict[str, Any], text: str) -> None:
    """Replaces a cell's text, in lines or in one piece as it was."""
    cell["source"] = text if isinstance(cell["source"], str) else text.splitlines(keepends=True)


def _marked(path: Path) -> list[str]:
    """The texts of a file in which markers may stand: a README as a whole, each Markdown cell of a notebook."""
    content = path.read_text(encoding="utf-8")
    return [source(cell) for cell in markdown_cells(path, content)[1]] if path.suffix == ".ipynb" else [content]


def _made(path: Path, known: Known) -> dict[str, str]:
    names = {name for markdown in _marked(path) for name, _, _ in parts(markdown)}
    return {name: known[name]() for name in names if name in known}


def stale(path: Path, known: Known) -> list[str]:
    """The names of the marked parts of a file that are not their text, or that no text is known of; in order, once.

    ValueError for a marker without its counterpart.
    """
    made, wrong = _made(path, known), []
    for markdown in _marked(path):
        wrong += [name for name, start, end in parts(markdown) if made.get(name) != markdown[start:end]]
    return list(dict.fromkeys(wrong))


def write(path: Path, known: Known) -> bool:
    """Replaces what is stale in a file, and nothing else in it. Whether it has changed."""
    made, before = _made(path, known), path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        notebook, cells = markdown_cells(path, before)
        for cell in cells:
            new = filled(source(cell), made)
            if new != source(cell):
                set_source(cell, new)
        after = dumped(notebook)
    else:
        after = filled(before, made)
    if after != before:
        with replacing(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(after)
    return after != before


def run(check: bool, known: Known, root: Path | None = None) -> bool:
    """Writes every file's stale texts anew, or with `check` only names them. Whether all is well afterwards."""
    fine, root = True, root or course()
    for path in files(root):
        where = path.relative_to(root)
        try:
            if not check and write(path, known):
                print(f"{where}: written")
            left = stale(path, known)
        except ValueError as error:
            print(f"{where}: {error}")
            fine = False
            continue
        for name in left:
            unknown = name not in known
            print(f"{where}: {name} is {'unknown' if unknown else 'stale: python -m common generate'}")
        fine = fine and not left
    return fine
