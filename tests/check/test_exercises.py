"""The exercises of all chapters: each can be done, cannot be passed by mistake, and stands in a notebook."""

import json
from pathlib import Path

import pytest

from common import check
from common.check.exercises import PLACEHOLDER, REPOSITORY, Exercise, find_all

EXERCISES = find_all()
WRONG = [(exercise, path) for exercise in EXERCISES for path in exercise.wrong]


def run(exercise: Exercise, answer: Path, monkeypatch) -> check.Result:
    monkeypatch.chdir(exercise.folder)
    return check.run(exercise.name, *exercise.objects(answer))


def lost_line(skeleton: str, solution: str) -> str | None:
    """The first line of a skeleton that is not, in its order, in the solution; placeholder lines may go."""
    rest = iter(solution.splitlines())
    for line in skeleton.splitlines():
        if not PLACEHOLDER.match(line) and line not in rest:  # `in` moves the iterator on, up to that line
            return line
    return None


def exercise_cells() -> dict[str, list[str]]:
    """The text of each notebook cell that is tagged exercise-<name>, by name."""
    cells: dict[str, list[str]] = {}
    for path in sorted(REPOSITORY.glob("[0-9][0-9]_*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for tag in cell["metadata"].get("tags", []):
                if tag.startswith("exercise-"):
                    cells.setdefault(tag.removeprefix("exercise-"), []).append("".join(cell["source"]))
    return cells


def by_name(exercise):
    return exercise.name if isinstance(exercise, Exercise) else exercise.stem


def test_names_are_unique_and_folders_complete():
    names = [exercise.name for exercise in EXERCISES]
    assert len(names) == len(set(names))
    folders = {path for path in REPOSITORY.glob("[0-9][0-9]_*/exercises/*") if path.is_dir()}
    assert folders == {exercise.folder for exercise in EXERCISES}, "an exercise without a check.py"


def test_every_exercise_cell_belongs_to_an_exercise():
    assert set(exercise_cells()) == {exercise.name for exercise in EXERCISES}


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_skeleton_fails_cleanly(exercise, monkeypatch):
    result = run(exercise, exercise.skeleton, monkeypatch)
    assert not result
    assert "not started yet" in result.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_solution_passes(exercise, monkeypatch):
    for _ in range(3):  # with other numbers each time
        result = run(exercise, exercise.solution, monkeypatch)
        assert result, result.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_solution_only_adds_lines_to_the_skeleton(exercise):
    skeleton, solution = exercise.skeleton.read_text(), exercise.solution.read_text()
    assert lost_line(skeleton, solution) is None
    assert any(PLACEHOLDER.match(line) for line in skeleton.splitlines()), "nothing to fill in"


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_there_are_wrong_answers_to_prove_the_check_with(exercise):
    assert len(exercise.wrong) >= (6 if exercise.is_cuda else 3)


@pytest.mark.parametrize(("exercise", "answer"), WRONG, ids=by_name)
def test_wrong_answers_are_refused_with_the_message_they_deserve(exercise, answer, monkeypatch):
    first, _, _ = answer.read_text().partition("\n")
    marker = "// expect: " if exercise.is_cuda else "# expect: "
    assert first.startswith(marker), "the first line says what the message has to contain"
    messages = []
    for _ in range(3):  # few numbers drawn at random may look like another mistake's: the next ones tell them apart
        result = run(exercise, answer, monkeypatch)
        assert not result, "this wrong answer passes"
        assert "not started yet" not in result.message
        messages.append(result.message)
        if first.removeprefix(marker).strip() in result.message:
            return
    pytest.fail("\n".join(messages))


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_notebook_cell_is_the_skeleton_word_for_word(exercise):
    cells = exercise_cells().get(exercise.name, [])
    assert len(cells) == 1, f"{len(cells)} notebook cells are tagged exercise-{exercise.name}"
    text = cells[0]
    if exercise.is_cuda:
        magic, _, text = text.partition("\n")
        assert magic == f"%%exercise {exercise.name}"
    assert text.strip() == exercise.skeleton.read_text().strip()


# The rule about added lines, tried out


SKELETON = "def f(x):\n    y = 0\n    ...  # your code: sum up\n    return y\n"


@pytest.mark.parametrize(
    ("solution", "lost"),
    [
        (SKELETON, None),
        ("def f(x):\n    y = 0\n    for z in x:\n        y += z\n    return y\n", None),
        ("import math\n\n" + SKELETON, None),
        ("def f(x):\n    return sum(x)\n", "    y = 0"),
        ("def f(x):\n    y = 0\n    return sum(x)\n", "    return y"),
        ("def f(x):\n    return y\n    y = 0\n", "    return y"),
        ("def f(x, start=0):\n    y = 0\n    return y\n", "def f(x):"),
    ],
)
def test_lost_line(solution, lost):
    assert lost_line(SKELETON, solution) == lost


def test_only_a_line_of_its_own_is_a_placeholder():
    assert PLACEHOLDER.match("    // your code: the guard")
    assert not PLACEHOLDER.match("    int i = 0;  // your code")
    assert PLACEHOLDER.match("    ...  # your code")
    assert PLACEHOLDER.match("...  # your code: the stride")
    assert not PLACEHOLDER.match("    y = ...  # your code")
    assert not PLACEHOLDER.match("    ...")
