"""The exercises of all chapters: each can be done, cannot be passed by mistake, and stands in a notebook."""

import json
import os
from pathlib import Path

import pytest

from common import check
from common.check.exercises import REPOSITORY, Exercise, find_all
from common.lab import markup

SEED = os.environ["COURSE_SEED"]
EXERCISES = find_all()
WRONG = [(exercise, path) for exercise in EXERCISES for path in exercise.wrong]
RIGHT = [(exercise, path) for exercise in EXERCISES for path in sorted(exercise.folder.glob("right/*"))]


def run(exercise: Exercise, answer: Path, monkeypatch, attempt: int = 0) -> check.Result:
    """What the check says; each attempt draws other numbers, the same ones in every run of one COURSE_SEED."""
    monkeypatch.chdir(exercise.folder)
    monkeypatch.setenv("COURSE_SEED", str(int(SEED) + attempt))
    return check.run(exercise.name, *exercise.objects(answer))


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
def test_the_skeleton_fails_cleanly(exercise, monkeypatch, tmp_path):
    path = tmp_path / f"skeleton{exercise.solution.suffix}"
    path.write_text(exercise.skeleton, encoding="utf-8")
    result = run(exercise, path, monkeypatch)
    assert not result
    assert "not started yet" in result.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_solution_passes(exercise, monkeypatch):
    for attempt in range(3):
        result = run(exercise, exercise.solution, monkeypatch, attempt)
        assert result, result.message


@pytest.mark.parametrize(("exercise", "answer"), RIGHT, ids=by_name)
def test_other_right_answers_pass(exercise, answer, monkeypatch):
    for attempt in range(2):
        result = run(exercise, answer, monkeypatch, attempt)
        assert result, result.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_something_is_to_be_written(exercise):
    assert exercise.skeleton != markup.plain(exercise.source, exercise.is_cuda)
    own = exercise.solution.with_stem("skeleton").exists()
    assert own != bool(markup.regions(exercise.source, exercise.is_cuda)), "either marked regions or a skeleton"


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_there_are_wrong_answers_to_prove_the_check_with(exercise):
    assert len(exercise.wrong) >= (6 if exercise.is_cuda else 3)


@pytest.mark.parametrize(("exercise", "answer"), WRONG, ids=by_name)
def test_wrong_answers_are_refused_with_the_message_they_deserve(exercise, answer, monkeypatch):
    first, _, _ = answer.read_text().partition("\n")
    marker = "// expect: " if exercise.is_cuda else "# expect: "
    assert first.startswith(marker), "the first line says what the message has to contain"
    messages = []
    for attempt in range(3):  # a few numbers may look like another mistake's: the next ones tell them apart
        result = run(exercise, answer, monkeypatch, attempt)
        assert not result, "this wrong answer passes"
        assert "not started yet" not in result.message
        messages.append(result.message)
        if first.removeprefix(marker).strip() in result.message:
            return
    pytest.fail("\n".join(messages))


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_notebook_cell_is_the_solution_word_for_word(exercise):
    cells = exercise_cells().get(exercise.name, [])
    assert len(cells) == 1, f"{len(cells)} notebook cells are tagged exercise-{exercise.name}"
    text = cells[0]
    if exercise.is_cuda:
        magic, _, text = text.partition("\n")
        assert magic == f"%%exercise {exercise.name}"
    assert text.strip() == exercise.source.strip()
