"""check.hint(): one hint more at each call, then the solution with its explanation."""

import json
from collections import Counter

import pytest

from common import check
from common.check import hints, unfold
from common.check.exercises import REPOSITORY
from common.lab import markup, progress
from common.report import generated

HINTS = "# double\n\n## Hint\nLook at `x`.\n\n## Hint\nTwo of it.\n\n## Solution\nTwice is two times.\n"
SOLUTION = """def double(x):
    # BEGIN SOLUTION
    # write: twice x
    return 2 * x
    # END SOLUTION
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "01_toys" / "exercises" / "double"
    folder.mkdir(parents=True)
    (folder / "check.py").write_text("def check(double): ...\n")
    solutions = tmp_path / "01_toys" / "solutions"
    solutions.mkdir()
    (solutions / "double.py").write_text(SOLUTION)
    (folder.parent / "hints.md").write_text(HINTS)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(hints, "_given", {})
    return folder


def shown(capsys, **options):
    assert check.hint("double", **options) is None
    return capsys.readouterr().out


def test_one_more_at_each_call(folder, capsys):
    assert shown(capsys) == "double, hint 1 of 2\n\nLook at `x`.\n\n"
    assert shown(capsys) == "double, hint 2 of 2\n\nTwo of it.\n\n"
    solution = "double, solution\n\n```python\ndef double(x):\n    return 2 * x\n```\n\nTwice is two times.\n\n"
    assert shown(capsys) == solution
    assert shown(capsys) == solution, "there is no more"
    assert "hint 1 of 2" in shown(capsys, restart=True)
    assert "hint 2 of 2" in shown(capsys)


def test_a_power_in_code_is_no_bold_text(folder, capsys):
    (folder.parent / "hints.md").write_text(HINTS.replace("Two of it.", "**Two** of it, not `x ** 2`."))
    (folder.parents[1] / "solutions" / "double.py").write_text(SOLUTION.replace("2 * x", "(2 * x) ** 1"))
    shown(capsys)
    assert shown(capsys) == "double, hint 2 of 2\n\nTwo of it, not `x ** 2`.\n\n"
    assert "    return (2 * x) ** 1\n" in shown(capsys)


def test_the_furthest_hint_is_recorded(folder, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_in_memory", {})
    for restart, number in ((False, 1), (False, 2), (True, 2), (False, 2), (False, 3)):
        check.hint("double", restart=restart)
        assert progress.load()["exercises"]["double"]["hints"] == number


def test_without_hints_the_solution(folder, capsys):
    (folder.parent / "hints.md").unlink()
    assert shown(capsys) == "double, solution\n\n```python\ndef double(x):\n    return 2 * x\n```\n\n"


def test_a_kernel_is_shown_as_cpp(folder, capsys):
    text = "// BEGIN SOLUTION\n// write: all of it\nint i;\n// END SOLUTION\n"
    (folder.parents[1] / "solutions" / "double.cu").write_text(text)
    shown(capsys), shown(capsys)
    assert "```c++\nint i;\n```" in shown(capsys)


def test_an_unknown_exercise(folder):
    with pytest.raises(LookupError, match="no exercise is called 'triple'"):
        check.hint("triple")


@pytest.mark.parametrize("exercise", check.find_all(), ids=lambda exercise: exercise.name)
def test_every_exercise_has_steps(exercise):
    titles = [title for title, _ in hints._steps(exercise)]
    assert titles[-1] == "solution"
    assert titles[:-1] == [f"hint {i + 1} of {len(titles) - 1}" for i in range(len(titles) - 1)]
    assert len(titles) >= 3, "two hints or more, then the solution"


def test_a_name_belongs_to_one_task_of_the_course():
    """check.hint() has only the name: two chapters with the same one would show each other's hints."""
    files = REPOSITORY.glob("0*/exercises/hints.md")
    names = [name for path in files for name in unfold._EXERCISE.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 60
    assert [name for name, count in Counter(names).items() if count > 1] == []


# ---- Cells to write that are no exercises


def test_a_cell_to_write_has_hints_too(folder, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_in_memory", {})
    hints_md = folder.parent / "hints.md"
    hints_md.write_text(HINTS + HINTS.replace("# double", "# half").replace("Twice is two times", "Half of it"))
    text = "%%engine graph.py half\ndef half(x):\n    # BEGIN SOLUTION\n    # write: it\n    return x / 2\n"
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": []}
    cells = [cell | {"source": text + "    # END SOLUTION"}]
    path = folder.parents[1] / "1_a.ipynb"
    path.write_text(generated.dumped({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert unfold.run(check=False, root=folder.parents[2])
    monkeypatch.chdir(folder.parents[1])
    for _ in range(3):
        check.hint("half")
    printed = capsys.readouterr().out
    assert "half, hint 1 of 2\n\nLook at `x`." in printed
    assert "```python\n%%engine graph.py half\ndef half(x):\n    return x / 2\n```\n\nHalf of it." in printed
    assert progress.load()["exercises"]["half"]["hints"] == 3


def cells_to_write():
    """(notebook, names, lines of the longest solution, tags of the next cell) of cells that are no exercises."""
    for path in unfold.notebooks():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell, after in zip(cells, [*cells[1:], {"metadata": {}}], strict=True):
            text = generated.source(cell)
            if cell["cell_type"] == "code" and unfold.names(text) and not unfold.is_exercise(cell):
                lines = max(len(region.solution) for region in markup.regions(text, markup.is_cuda(text)))
                yield path.stem, unfold.names(text), lines, after["metadata"].get("tags", [])


def test_every_cell_to_write_of_several_lines_has_hints():
    found = list(cells_to_write())
    assert found
    for notebook, names, lines, below in found:
        assert lines < 3 or any(f"hints-{name}" in below for name in names), f"{notebook}: no hints for {names}"
