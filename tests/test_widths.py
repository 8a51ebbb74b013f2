"""Code in notebooks and exercises fits the column that JupyterLab shows beside its file browser, 95 characters."""

import json
from pathlib import Path

import pytest

from common import check
from common.lab import links
from common.report import generated, results

ROOT = results.course()
COLUMNS = 95

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
