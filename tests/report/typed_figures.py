"""Figures with a unit that somebody typed: in prose, in hints, in docstrings and in the headers of kernels.

What stands between `generated` markers is made from records, and is left out.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

# a number and its unit; × only as "times", not between the sides of a shape
FIGURE = re.compile(
    r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?:"
    r"[ \u00a0]?(?:µs|us|ms|mJ|[TGM]FLOP/s|T?OP/s|[TGM]B/s|%)(?![\w/])|×(?![\w(]| ?\d| [A-Za-z]\b))"
)
UNIT = re.compile(r"µs|\\bms\\b|mJ|TFLOP/s|[TG]B/s")
GENERATED = re.compile(r"<!-- generated: \S+ -->.*?<!-- /generated -->", re.DOTALL)
CODE = re.compile(r"```.*?```", re.DOTALL)


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """(path, a line of text) of all that learners and readers read, without what is generated, and without code."""
    for path in sorted(root.glob("[0-9][0-9]_*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown" and not {t for t in tags(cell) if t.startswith("hints-")}:
                yield from lines(path.relative_to(root), "".join(cell["source"]))
    pages = [
        *root.glob("*.md"),
        *root.glob("docs/*.md"),
        *root.glob("[0-9][0-9]_*/**/*.md"),
        *root.glob("common/**/*.md"),
    ]
    for path in sorted(pages):
        yield from lines(path.relative_to(root), path.read_text(encoding="utf-8"))
    for path in sorted(root.glob("common/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield from lines(path.relative_to(root), ast.get_docstring(node) or "")
    for suffix in ("cu", "h", "cuh"):
        for path in sorted(root.glob(f"common/**/*.{suffix}")):
            yield from lines(path.relative_to(root), header(path.read_text(encoding="utf-8")))


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def header(source: str) -> str:
    """The comment with which a kernel's file begins."""
    found = []
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        found.append(line.removeprefix("//").strip())
    return "\n".join(found)


def lines(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text; a table's row with a number gets the unit of the line above the table, or of its head."""
    said, unit = "", ""
    for line in map(str.strip, CODE.sub("", GENERATED.sub("", text)).splitlines()):
        if not line:
            unit = ""
            continue
        if not line.startswith("|"):
            said, unit = line, ""
        elif not unit:
            unit = next(iter(UNIT.findall(said[-80:]) + UNIT.findall(line)), "none")
        elif (
            unit != "none" and re.search(r"\|\s*\**(about )?\**\d[\d.,]*\**\s*(?=\|)", line) and not FIGURE.search(line)
        ):
            line = f"{line} (in {unit}: 0 {unit})"
        yield path.as_posix(), line


def sentences(line: str) -> list[str]:
    """The sentences of a line that hold a figure, each shortened to what stands around it."""
    found = []
    if line.startswith("|") and line.endswith(")") and "(in " in line:
        return [" ".join(line.split())]
    for part in re.split(r"(?<=[.:;?!])\s+(?=[\w*`(\"$])|\s\|\s", line):
        if FIGURE.search(part):
            found.append(" ".join(part.split()))
    return found


def typed(root: Path) -> list[tuple[str, str]]:
    """(path, sentence) of every typed figure, in order; each once."""
    return list(dict.fromkeys((path, sentence) for path, line in texts(root) for sentence in sentences(line)))
