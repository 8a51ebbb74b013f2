"""Navigation: the last cell of each notebook links to the previous notebook, its chapter and the next notebook.

    ← [1 Seeing memory](1_seeing_memory.ipynb) · [chapter 04](README.md) · [3 Global average pooling](…) →

`python -m common generate` writes these cells, which are tagged `navigation`.

A notebook without a number is an appendix of its chapter. APPENDICES says after which chapter it is read.
"""

import json
import re
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from ..report import generated
from ..report.results import course

TAG = "navigation"
APPENDICES = {"appendix_engines_and_plans.ipynb": "04_kernels"}  # by file name: the chapter after which it is read
_TITLE = re.compile(r"^# (?:\d+[a-z]?\. )?(?P<title>[^:\n]+)", re.MULTILINE)


def notebooks(root: Path | None = None) -> list[Path]:
    """The notebooks of all chapters in the order in which they are read: 10 after 9, an appendix after its chapter."""
    return sorted((root or course()).glob("[0-9][0-9]_*/*_*.ipynb"), key=place)


def read_with(path: Path) -> str:
    """The folder of the chapter with which a notebook is read: its own, for an appendix the one it comes after."""
    return APPENDICES.get(path.name, path.parent.name)


def place(path: Path) -> tuple[str, float, str]:
    """A key that sorts notebooks in the order in which they are read."""
    number = _number(path)
    digits = (number or "").rstrip(ascii_lowercase)
    return read_with(path), int(digits) if digits else float("inf"), number or ""


def _number(path: Path) -> str | None:
    first = path.name.split("_")[0]  # "5", or "5b", which follows it
    return first if re.fullmatch(r"\d+[a-z]?", first) else None


def title(path: Path) -> str:
    """A notebook's number, if it has one, and its title up to the first colon. ValueError for a cell without title."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
    found = _TITLE.match(generated.source(first))
    if found is None:
        raise ValueError(f"{path.name}: the first cell does not begin with '# ' and a title")
    number = _number(path)
    return found["title"].strip() if number is None else f"{number} {found['title'].strip()}"


def _link(here: Path, there: Path) -> str:
    """A Markdown link between two notebooks; its text names the chapter if that differs."""
    if there.parent == here.parent:
        return f"[{title(there)}]({there.name})"
    return f"[chapter {there.parent.name[:2]}, {title(there)}](../{there.parent.name}/{there.name})"


def line(path: Path, order: list[Path]) -> str:
    """The Markdown of a notebook's navigation cell. order: all notebooks in order."""
    index = order.index(path)
    parts = [f"[chapter {path.parent.name[:2]}](README.md)"]
    if index > 0:
        parts.insert(0, f"← {_link(path, order[index - 1])}")
    if index + 1 < len(order):
        parts.append(f"{_link(path, order[index + 1])} →")
    return " · ".join(parts)


def _is_navigation(cell: dict[str, Any]) -> bool:
    return TAG in cell["metadata"].get("tags", [])


def _with_line(notebook: dict[str, Any], text: str) -> dict[str, Any]:
    """The notebook with this text in its last cell and without any other navigation cell."""
    cell = {"cell_type": "markdown", "id": TAG, "metadata": {"tags": [TAG]}, "source": [text]}
    return notebook | {"cells": [one for one in notebook["cells"] if not _is_navigation(one)] + [cell]}


def write(path: Path, order: list[Path], change: bool = True) -> bool:
    """Whether the navigation cell of a notebook is stale; with `change`, rewrite it.

    Raises ValueError for a notebook without a title, or one that could not be written back byte for byte.
    """
    before = path.read_text(encoding="utf-8")
    notebook, _ = generated.markdown_cells(path, before)
    after = generated.dumped(_with_line(notebook, line(path, order)))
    if change and after != before:
        path.write_text(after, encoding="utf-8", newline="\n")
    return after != before


def run(check: bool, root: Path | None = None) -> bool:
    """Rewrite stale navigation cells, or with `check` only list them. Returns True if none is left."""
    root, fine = root or course(), True
    order = notebooks(root)
    for path in order:
        where = path.relative_to(root)
        try:
            stale = write(path, order, change=not check)
        except ValueError as error:
            print(f"{where}: {error}")
            fine = False
            continue
        if stale:
            print(f"{where}: the navigation is stale: python -m common generate" if check else f"{where}: written")
        fine = fine and not (check and stale)
    return fine
