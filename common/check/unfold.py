"""The Markdown cell after an exercise: nested, folded hints and the solution.

<chapter>/exercises/hints.md has a section `# <name>` for each exercise: two or three sections `## Hint`, each more
specific than the one before, and one `## Solution` with the explanation; the code is solutions/<name>.py or .cu.
`python -m common generate` writes them into the Markdown cells tagged `hints-<name>`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..lab import markup
from ..report import generated
from .exercises import REPOSITORY, Exercise, find_all

TAG = "hints-"
_EXERCISE = re.compile(r"^# (.*)$", re.MULTILINE)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def sections(exercise: Exercise) -> tuple[list[str], str]:
    """(hints, explanation of the solution) of an exercise, from its chapter's hints.md.

    Raises ValueError if its section is missing or is not a sequence of hints followed by one solution.
    """
    path = exercise.folder.parent / "hints.md"
    _, *parts = _EXERCISE.split(path.read_text(encoding="utf-8") if path.exists() else "")
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    if exercise.name not in named:
        raise ValueError(f"{exercise.name} has no hints in hints.md")
    before, *rest = _HEADING.split(named[exercise.name])
    headings, texts = rest[::2], [text.strip() for text in rest[1::2]]
    if before.strip() or not all(texts) or headings != ["Hint"] * (len(headings) - 1) + ["Solution"]:
        raise ValueError(f"{exercise.name}: hints.md must have sections '## Hint' and one '## Solution', none empty")
    return texts[:-1], texts[-1]


def _details(summary: str, text: str) -> str:
    # inside HTML, Markdown needs empty lines around it
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def render(exercise: Exercise) -> str:
    """Markdown: the hints, each folded inside the one before, and the folded solution with its explanation."""
    hints, explanation = sections(exercise)
    folded = ""
    for number in range(len(hints), 0, -1):
        folded = _details(f"Hint {number}", f"{hints[number - 1]}\n\n{folded}".rstrip())
    language = "c++" if exercise.is_cuda else "python"
    code = markup.plain(exercise.source, exercise.is_cuda).strip()
    solution = _details("Solution", f"```{language}\n{code}\n```\n\n{explanation}")
    return f"{folded}\n\n{solution}" if folded else solution


# ---- Notebooks


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
    if TAG not in content:
        return []
    notebook, cells = generated.markdown_cells(path, content)
    stale = []
    for name, cell in _tagged(cells):
        if name not in exercises:
            raise ValueError(f"a cell is tagged {TAG}{name}, and no exercise is called so")
        markdown = render(exercises[name])
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
