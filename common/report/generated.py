"""Text between markers, generated from results files, in README and RESULTS files, in docs/ and in
Markdown cells of notebooks.

A table has lines of its own, a number is within a line:

    <!-- generated: network-peers -->
    | … |
    <!-- /generated -->

    copies at <!-- generated: peak-copy -->4.31 TB/s<!-- /generated --> here

`known` maps names to the functions that generate the texts: tables.texts(). `run(True, known)` prints what is stale,
`run(False, known)` rewrites it.
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
    """Yield (name, start, end) of the text between each pair of markers, without the newlines around a block.

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
        block = markdown[start] == "\n" == markdown[end - 1]  # for an empty block, both are the same newline
        yield (name, start + 1, end - 1) if block else (name, start, end)
    if _CLOSING in markdown[after:]:
        raise ValueError(f"the last {_CLOSING} closes nothing")


def between(markdown: str, name: str) -> list[str]:
    """All texts between markers of this name."""
    return [markdown[start:end] for found, start, end in parts(markdown) if found == name]


def filled(markdown: str, texts: Mapping[str, str]) -> str:
    """The Markdown with each marked part replaced by its entry in `texts`, if any. ValueError for a table in a line."""
    pieces, after = [], 0
    for name, start, end in parts(markdown):
        if name not in texts:
            continue
        if "\n" in texts[name] and markdown[start - 1] != "\n":
            raise ValueError(f"{name} has several lines: its markers must stand on lines of their own")
        pieces += [markdown[after:start], texts[name]]
        after = end
    return "".join([*pieces, markdown[after:]])


# ---- Files


def files(root: Path) -> list[Path]:
    """The README.md and RESULTS.md files, docs/*.md and notebooks below `root` that contain a marker.

    Hidden folders, environments, and the learner's copies in root/work are left out.
    """
    found = []
    for folder, below, names in os.walk(root):
        if Path(folder) == root and "work" in below:
            below.remove("work")
        below[:] = [
            name for name in below if not name.startswith(".") and not (Path(folder) / name / "pyvenv.cfg").exists()
        ]
        docs = Path(folder).name == "docs"
        paths = [
            Path(folder) / name
            for name in names
            if name in ("README.md", "RESULTS.md") or name.endswith(".ipynb") or (docs and name.endswith(".md"))
        ]
        found += [path for path in paths if _OPENING.search(path.read_text(encoding="utf-8"))]
    return sorted(found)


def dumped(notebook: dict[str, Any]) -> str:
    """A notebook as JSON, formatted as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def markdown_cells(path: Path, content: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(the notebook parsed from `content`, its Markdown cells). ValueError if `dumped` would not restore `content`."""
    notebook = json.loads(content)
    if dumped(notebook) != content:
        raise ValueError(f"{path.name} is not written as Jupyter writes notebooks: open and save it there")
    return notebook, [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]


def source(cell: dict[str, Any]) -> str:
    """The text of a notebook's cell."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def set_source(cell: dict[str, Any], text: str) -> None:
    """Replace a cell's text; it remains a list of lines or one string, as before."""
    cell["source"] = text if isinstance(cell["source"], str) else text.splitlines(keepends=True)


def _marked(path: Path) -> list[str]:
    """The texts of a file that may contain markers: a whole README, or each Markdown cell of a notebook."""
    content = path.read_text(encoding="utf-8")
    return [source(cell) for cell in markdown_cells(path, content)[1]] if path.suffix == ".ipynb" else [content]


def _generated(path: Path, known: Known) -> dict[str, str]:
    names = {name for markdown in _marked(path) for name, _, _ in parts(markdown)}
    return {name: known[name]() for name in names if name in known}


def stale(path: Path, known: Known) -> list[str]:
    """The names of a file's marked parts that differ from the generated text, or for which there is none; each once.

    ValueError for a marker without its counterpart.
    """
    texts, wrong = _generated(path, known), []
    for markdown in _marked(path):
        wrong += [name for name, start, end in parts(markdown) if texts.get(name) != markdown[start:end]]
    return list(dict.fromkeys(wrong))


def write(path: Path, known: Known) -> bool:
    """Replace the stale parts of a file, and nothing else. Returns whether the file has changed."""
    texts, before = _generated(path, known), path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        notebook, cells = markdown_cells(path, before)
        for cell in cells:
            new = filled(source(cell), texts)
            if new != source(cell):
                set_source(cell, new)
        after = dumped(notebook)
    else:
        after = filled(before, texts)
    if after != before:
        with replacing(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(after)
    return after != before


def run(check: bool, known: Known, root: Path | None = None) -> bool:
    """Rewrite all files' stale texts, or with `check` only print their names. Returns whether none is stale afterwards.

    root: by default the course's folder.
    """
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
