"""Figures with a unit that somebody typed: in prose, in hints, in docstrings and in the headers of kernels.

What stands between `generated` markers is made from records, and is left out.

`python tests/report/typed_figures.py` writes typed_figures.toml anew: what was moved keeps its reason, what is gone
goes, and what is new has the reason "?", which the test refuses until somebody has written a better one.
"""

import ast
import json
import re
import tomllib
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


def write(root: Path, listing: Path) -> int:
    """Write the list anew; returns how many entries have no reason yet."""
    before = listing.read_text(encoding="utf-8")
    entries = tomllib.loads(before)["figure"]
    reasons = {one["text"]: one["why"] for one in entries}
    head = before.partition("[[figure]]")[0]
    found = [(path, text, reasons.get(text, "?")) for path, text in typed(root)]
    blocks = (
        "[[figure]]\n" + "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in one.items())
        for one in ({"in": path, "text": text, "why": why} for path, text, why in found)
    )
    listing.write_text(head + "\n".join(blocks), encoding="utf-8")
    return sum(why == "?" for *_, why in found)


if __name__ == "__main__":
    here = Path(__file__).resolve()
    print(write(here.parents[2], here.with_name("typed_figures.toml")), "without a reason")
