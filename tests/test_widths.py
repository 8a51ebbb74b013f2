"""Code in notebooks and exercises fits the column that JupyterLab shows beside its file browser, 95 characters.

What a learner reads of chapter 05 is at most 30 lines per cell.
"""

import json
from pathlib import Path

import nbformat
import pytest

from common import check
from common.check import copies
from common.lab import links
from common.report import generated, results

ROOT = results.course()
COLUMNS = 95
LINES = 30

# How many lines are wider, where narrower ones would change what a later cell shows.
WIDER: dict[str, int] = {}  # notebooks with wider lines, and how many


def wide(text: str) -> list[str]:
    return [line for line in text.split("\n") if len(line) > COLUMNS]


@pytest.mark.parametrize("path", links.notebooks(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_in_notebooks(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [line for cell in cells if cell["cell_type"] == "code" for line in wide(generated.source(cell))]
    assert len(found) == WIDER.get(path.relative_to(ROOT).as_posix(), 0), "\n".join(found)


def test_nothing_is_excepted_that_is_gone():
    assert all((ROOT / name).exists() for name in WIDER)


@pytest.mark.parametrize("path", sorted(ROOT.glob("05_network/*.ipynb")), ids=lambda path: path.name)
def test_cells_are_short_in_the_learners_copy(path):
    form = copies.LearnersForm({exercise.name: exercise for exercise in check.find_all()})
    nb, _ = form.preprocess(nbformat.read(path, 4), {})
    longer = {c.id: c.source.count("\n") + 1 for c in nb.cells if c.cell_type == "code"}
    assert longer and {name: lines for name, lines in longer.items() if lines > LINES} == {}


def of_exercises() -> list[Path]:
    """What learners read of exercises: solutions, and skeletons that are files of their own."""
    return sorted(
        path for exercise in check.find_all() for path in (exercise.solution, exercise.skeleton_file) if path.exists()
    )


def test_exercises():
    paths = of_exercises()
    assert len(paths) >= len(list(check.find_all())) > 0
    assert {path.relative_to(ROOT).as_posix(): lines for path in paths if (lines := wide(path.read_text()))} == {}
    skeletons = {exercise.name: lines for exercise in check.find_all() if (lines := wide(exercise.skeleton))}
    assert skeletons == {}
