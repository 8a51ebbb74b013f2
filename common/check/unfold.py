"""The Markdown cell after an exercise or a cell to write: nested, folded hints and the solution.

<chapter>/exercises/hints.md has a section `# <name>` for each exercise: two or three sections `## Hint`, each more
specific than the one before, and one `## Solution` with the explanation; the code is solutions/<name>.py or .cu.
`python -m common generate` writes them into the Markdown cells tagged `hints-<name>`. Links lead from hints.md's own
folder; in the cell they lead from the notebook's.

A cell with a solution region that is no exercise has such a section under the name of a part of the engine
(`%%engine graph.py constants`) or of a function or class that it defines. `generate` puts the Markdown cell below it.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..lab import markup
from ..report import generated
from .exercises import REPOSITORY, Exercise, find_all

TAG = "hints-"
_EXERCISE = re.compile(r"^# (.*)$", re.MULTILINE)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """A notebook's cell in which the learner writes, and which is no exercise: its name, chapter and text."""

    name: str
    chapter: Path
    source: str

    @property
    def is_cuda(self) -> bool:
        """Whether the cell is CUDA C++."""
        return markup.is_cuda(self.source)

    @property
    def hints_file(self) -> Path:
        """The chapter's file with hints."""
        return self.chapter / "exercises" / "hints.md"


def _named(path: Path) -> dict[str, str]:
    """The text of each section of a hints.md, by name."""
    _, *parts = _EXERCISE.split(path.read_text(encoding="utf-8") if path.exists() else "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def sections(exercise: Exercise | Written) -> tuple[list[str], str]:
    """(hints, explanation of the solution) of an exercise or a cell to write, from its chapter's hints.md.

    Raises ValueError if its section is missing or is not a sequence of hints followed by one solution.
    """
    named = _named(exercise.hints_file)
    if exercise.name not in named:
        raise ValueError(f"{exercise.name} has no hints in hints.md")
    before, *rest = _HEADING.split(named[exercise.name].replace("](../", "]("))  # to the notebook's folder
    headings, texts = rest[::2], [text.strip() for text in rest[1::2]]
    if before.strip() or not all(texts) or headings != ["Hint"] * (len(headings) - 1) + ["Solution"]:
        raise ValueError(f"{exercise.name}: hints.md must have sections '## Hint' and one '## Solution', none empty")
    return texts[:-1], texts[-1]


# the explanation of an exercise that is held back, see handout.py
HELD_BACK = "The hints and the solution of this exercise are held back: ask your teacher."


def held_back(exercise: Exercise | Written) -> bool:
    """Whether the hints and the solution of an exercise are held back in this copy of the course."""
    return HELD_BACK in _named(exercise.hints_file).get(exercise.name, "")


def without_hints(text: str, names: Collection[str]) -> str:
    """The text of a hints.md in which the sections of these exercises say that they are held back."""
    before, *parts = _EXERCISE.split(text)
    held = {name: f"\n\n## Solution\n\n{HELD_BACK}\n\n" for name in names}
    sections = [f"# {name}{held.get(name, own)}" for name, own in zip(parts[::2], parts[1::2], strict=True)]
    return "".join([before, *sections])


def _details(summary: str, text: str) -> str:
    # inside HTML, Markdown needs empty lines around it
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def render(exercise: Exercise | Written) -> str:
    """Markdown: the hints, each folded inside the one before, and the folded solution with its explanation."""
    hints, explanation = sections(exercise)
    if held_back(exercise):
        return HELD_BACK
    folded = ""
    for number in range(len(hints), 0, -1):
        folded = _details(f"Hint {number}", f"{hints[number - 1]}\n\n{folded}".rstrip())
    language = "c++" if exercise.is_cuda else "python"
    code = markup.plain(exercise.source, exercise.is_cuda).strip()
    solution = _details("Solution", f"```{language}\n{code}\n```\n\n{explanation}")
    return f"{folded}\n\n{solution}" if folded else solution


# ---- Cells to write

_PART = re.compile(r"^%%engine \S+ (\w+)$", re.MULTILINE)
_DEFINED = re.compile(r"^(?:def|class) (\w+)|__global__ void (\w+)", re.MULTILINE)


def names(source: str) -> list[str]:
    """The names under which a cell to write may have hints: the engine's part, then what its regions are in.

    None for a cell without a solution region.
    """
    found = _PART.findall(source)
    lines = source.split("\n")
    regions = markup.regions(source, markup.is_cuda(source))
    for region in regions:
        above = _DEFINED.findall("\n".join(lines[: region.line]))
        found += [python or cuda for python, cuda in above[-1:]]
    return list(dict.fromkeys(found)) if regions else []


def is_exercise(cell: dict[str, Any]) -> bool:
    """Whether a code cell holds an exercise's solution."""
    return any(tag.startswith("exercise-") for tag in cell["metadata"].get("tags", []))


def written(cells: Sequence[dict[str, Any]], chapter: Path) -> Iterator[tuple[int, Written]]:
    """(index, cell) of the cells to write that have a section in their chapter's hints.md, in order."""
    known = _named(chapter / "exercises" / "hints.md")
    for index, cell in enumerate(cells):
        if cell["cell_type"] == "code" and not is_exercise(cell):
            text = generated.source(cell)
            for name in [name for name in names(text) if name in known][:1]:
                yield index, Written(name, chapter, text)


def find_written(name: str, roots: Sequence[Path]) -> Written | None:
    """The cell to write of this name in the chapters' notebooks below the first of the folders that has one."""
    for path in [path for root in roots for path in notebooks(root)]:
        content = path.read_text(encoding="utf-8")
        if f"{TAG}{name}" in content:
            cells = json.loads(content)["cells"]
            found = [one for _, one in written(cells, path.parent) if one.name == name]
            if found:
                return found[0]
    return None


# ---- Notebooks


def _with_cells(notebook: dict[str, Any], chapter: Path) -> None:
    """Put an empty cell for hints below each cell to write that lacks one."""
    cells = notebook["cells"]
    for index, one in reversed(list(written(cells, chapter))):
        below = cells[index + 1 : index + 2]
        if not any(tag == TAG + one.name for cell in below for tag in cell["metadata"].get("tags", [])):
            tag = TAG + one.name
            cells.insert(index + 1, {"cell_type": "markdown", "id": tag, "metadata": {"tags": [tag]}, "source": []})


def _tagged(cells: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(exercise name, cell) of every hints cell."""
    for cell in cells:
        for tag in cell["metadata"].get("tags", []):
            if tag.startswith(TAG):
                yield tag.removeprefix(TAG), cell


def notebooks(root: Path = REPOSITORY) -> list[Path]:
    """The chapters' notebooks, in order."""
    return sorted(root.glob("[0-9][0-9]_*/*.ipynb"))


def write(path: Path, exercises: dict[str, Exercise], change: bool = True) -> list[str]:
    """Names of the exercises whose hints cell in a notebook is stale; with `change`, rewrite those cells.

    Raises ValueError for a hints cell of an unknown exercise or one without valid hints.
    """
    content = path.read_text(encoding="utf-8")
    if TAG not in content and markup.BEGIN not in content:
        return []
    notebook, _ = generated.markdown_cells(path, content)
    stale = []
    _with_cells(notebook, path.parent)
    own = {one.name: one for _, one in written(notebook["cells"], path.parent)}
    for name, cell in _tagged(notebook["cells"]):
        if name not in exercises and name not in own:
            raise ValueError(f"a cell is tagged {TAG}{name}, and no exercise is called so")
        markdown = render(own[name] if name in own else exercises[name])
        if generated.source(cell) != markdown:
            generated.set_source(cell, markdown)
            stale.append(name)
    if stale and change:
        path.write_text(generated.dumped(notebook), encoding="utf-8", newline="\n")
    return stale


def run(check: bool, root: Path = REPOSITORY) -> bool:
    """Rewrite all stale hints cells of the notebooks, or with `check` only list them. Returns True if none is left."""
    exercises = {exercise.name: exercise for exercise in find_all(root)}
    fine = True
    for path in notebooks(root):
        where = path.relative_to(root)
        try:
            stale = write(path, exercises, change=not check)
        except ValueError as error:
            print(f"{where}: {error}")
            fine = False
            continue
        for name in stale:
            print(f"{where}: hints of {name} " + ("are stale: python -m common generate" if check else "written"))
        fine = fine and not (check and stale)
    return fine
