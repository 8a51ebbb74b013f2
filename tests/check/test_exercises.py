"""The exercises of all chapters: each can be done, cannot be passed by mistake, and stands in a notebook."""

import functools
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import answers
import pytest
from tiers import ALL, at_turn

from common import check, cuda
from common.check import child
from common.check.exercises import REPOSITORY, Exercise, find_all
from common.lab import markup

SEED = int(os.environ["COURSE_SEED"])
ATTEMPTS = 3
SHARE = 5  # of the messages that are tried in one run: a check's part that gives one is a few lines
NOT_STARTED = "not started yet"
EXERCISES = find_all()


def wrong_at_turn(exercise: Exercise) -> list[answers.Answer]:
    """For one in SHARE of the messages that wrong answers deserve, one of those answers; all in `make test-all`."""
    by_message: dict[str, list[answers.Answer]] = {}
    for answer in answers.wrong(exercise):
        by_message.setdefault(answer.expect, []).append(answer)
    return [one for several in at_turn([*by_message.values()], SHARE) for one in at_turn(several, pace=SHARE)]


def right_at_turn(exercise: Exercise) -> list[answers.Answer]:
    """One of the right answers besides the solution; all in `make test-all`."""
    several = answers.right(exercise) if exercise in SOLVED else []
    return at_turn(several, pace=SHARE) if several else []


# (the other solutions pass in their notebooks, whose outputs are compared)
SOLVED = at_turn(EXERCISES, SHARE)
WRONG = [(exercise, answer) for exercise in EXERCISES for answer in wrong_at_turn(exercise)]
RIGHT = [(exercise, answer) for exercise in SOLVED for answer in right_at_turn(exercise)]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """What the check says of a text; each attempt draws other numbers, the same in every run of one COURSE_SEED."""

    def run(exercise: Exercise, text: str, attempt: int = 0) -> check.Result:
        path = tmp_path / f"answer{exercise.solution.suffix}"
        path.write_text(text, encoding="utf-8")
        monkeypatch.chdir(exercise.folder)
        monkeypatch.setenv("COURSE_SEED", str(SEED + attempt))
        return check.run(exercise.name, *exercise.objects(path))

    return run


@pytest.fixture
def attempts(run):
    """(passed, message) of each attempt, in turn: a few numbers may look like another mistake's."""

    def attempts(exercise: Exercise, text: str, most: int = ATTEMPTS) -> Iterable[tuple[bool, str]]:
        if not ALL and cuda.backend() == "simulator":
            together = judged_together(exercise)
            if isinstance(together, dict):
                return together[text]
        return ((bool(result), result.message) for result in (run(exercise, text, i) for i in range(most)))

    return attempts


@functools.cache
def judged_together(exercise: Exercise) -> dict[str, list[tuple[bool, str]]] | child.Ended:
    """What is said of each answer, by its text: of one that must not pass, up to the attempt with the expected message.

    One fork judges them all: seventeen hundred forks less, and a kernel that writes to a wild address harms nothing
    else. If one ends the process, each is judged in a fork of its own.
    """
    expected = {exercise.skeleton: NOT_STARTED} | {wrong.text: wrong.expect for wrong in wrong_at_turn(exercise)}
    right = [exercise.source, *(answer.text for answer in right_at_turn(exercise))] if exercise in SOLVED else []

    def judge(objects: list) -> tuple[bool, str]:
        result = check.run(exercise.name, *objects)
        return bool(result), result.message

    def judge_all(line: child.Line) -> dict[str, list[tuple[bool, str]]]:
        check.runner.isolated = False
        os.chdir(exercise.folder)
        said: dict[str, list[tuple[bool, str]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for number, text in enumerate([*expected, *right]):
                path = Path(folder, f"answer{number}{exercise.solution.suffix}")
                path.write_text(text, encoding="utf-8")
                for attempt in range(ATTEMPTS if text in expected else 1):
                    os.environ["COURSE_SEED"] = str(SEED + attempt)
                    said.setdefault(text, []).append(judge(exercise.objects(path)))
                    if text in expected and expected[text] in said[text][-1][1]:
                        break
        return said

    if exercise.is_cuda:
        check.runner._prepare()  # or each fork imports elftools and asks the compiler for its version
    seconds = check.runner.SECONDS * ATTEMPTS * (len(expected) + len(right))
    return child.forked(judge_all, seconds, limit_addresses=False)


@functools.cache
def exercise_cells() -> dict[str, list[str]]:
    """The text of each notebook cell that is tagged exercise-<name>, by name."""
    cells: dict[str, list[str]] = {}
    for path in sorted(REPOSITORY.glob("[0-9][0-9]_*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for tag in cell["metadata"].get("tags", []):
                if tag.startswith("exercise-"):
                    cells.setdefault(tag.removeprefix("exercise-"), []).append("".join(cell["source"]))
    return cells


def by_name(value):
    return value.name


def test_names_are_unique_and_folders_complete():
    names = [exercise.name for exercise in EXERCISES]
    assert len(names) == len(set(names))
    folders = {path for path in REPOSITORY.glob("[0-9][0-9]_*/exercises/*") if path.is_dir()}
    assert folders == {exercise.folder for exercise in EXERCISES}, "an exercise without a check.py"


def test_every_solution_and_file_of_answers_belongs_to_an_exercise():
    solutions = {path for path in REPOSITORY.glob("[0-9][0-9]_*/solutions/*") if path.is_file()}
    assert solutions == {exercise.solution for exercise in EXERCISES if not exercise.engine_file}
    files = {path.relative_to(answers.FOLDER).as_posix() for path in answers.FOLDER.glob("[0-9][0-9]_*/*")}
    assert files == {f"{exercise.folder.parents[1].name}/{exercise.name}.toml" for exercise in EXERCISES}


def test_a_learner_may_see_all_of_an_exercise_folder():
    seen = {path.name for exercise in EXERCISES for path in exercise.folder.iterdir() if path.name != "__pycache__"}
    assert seen <= {"check.py", "skeleton.cu", "skeleton.py"}


def test_every_exercise_cell_belongs_to_an_exercise():
    assert set(exercise_cells()) == {exercise.name for exercise in EXERCISES}


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_skeleton_fails_cleanly(exercise, attempts):
    passed, message = next(iter(attempts(exercise, exercise.skeleton)))
    assert not passed
    assert NOT_STARTED in message


@pytest.mark.parametrize("exercise", SOLVED, ids=by_name)
def test_the_solution_passes(exercise, attempts):
    for passed, message in attempts(exercise, exercise.source, 3 if ALL else 1):
        assert passed, message


@pytest.mark.parametrize(("exercise", "answer"), RIGHT, ids=by_name)
def test_other_right_answers_pass(exercise, answer, attempts):
    for passed, message in attempts(exercise, answer.text, 2 if ALL else 1):
        assert passed, message


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_something_is_to_be_written(exercise):
    assert exercise.skeleton != markup.plain(exercise.source, exercise.is_cuda)
    assert exercise.skeleton_file.exists() != bool(markup.regions(exercise.source, exercise.is_cuda)), (
        "either marked regions or a skeleton"
    )


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_there_are_wrong_answers_to_prove_the_check_with(exercise):
    texts = {answer.text for answer in answers.wrong(exercise)}
    assert len(texts) == len(answers.wrong(exercise)) >= (6 if exercise.is_cuda else 3)


@pytest.mark.parametrize(("exercise", "answer"), WRONG, ids=by_name)
def test_wrong_answers_are_refused_with_the_message_they_deserve(exercise, answer, attempts):
    messages = []
    for passed, message in attempts(exercise, answer.text):
        assert not passed, "this wrong answer passes"
        assert NOT_STARTED not in message
        if answer.expect in message:
            return
        messages.append(message)
    pytest.fail("\n".join(messages))


@pytest.mark.parametrize("exercise", EXERCISES, ids=by_name)
def test_the_notebook_cell_is_the_solution_word_for_word(exercise):
    cells = exercise_cells().get(exercise.name, [])
    assert len(cells) == 1, f"{len(cells)} notebook cells are tagged exercise-{exercise.name}"
    text = cells[0]
    if exercise.is_cuda or text.startswith("%%"):
        magic, _, text = text.partition("\n")
        assert magic == exercise.magic
    assert text.strip() == exercise.source.strip()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("[wrong.a]\nexpect = 'x'\nedits = [['i > n', '']]", "wrong.a: 'i > n' stands 0 times in the solution"),
        ("[wrong.a]\nexpect = 'x'\nedits = [['int', '']]", "wrong.a: 'int' stands 2 times in the solution"),
        ("[wrong.a]\nexpect = 'x'\nregions = ['', '']", "wrong.a: has 2 regions, expected 1"),
        ("[wrong.a]\ntext = ''", r"wrong.a: has \['text'\], expected \['expect', 'one of edits, regions, text'\]"),
        ("[right.a]\nexpect = 'x'\ntext = ''", "right.a: has"),
        ("[right.a]\nedits = []\ntext = ''", "right.a: has"),
        ("[maybe.a]\ntext = ''", r"a.toml: has \['maybe'\]"),
    ],
)
def test_an_answer_that_does_not_fit_its_solution_is_named(entry, said, tmp_path):
    (tmp_path / "a.toml").write_text(entry)
    with pytest.raises(ValueError, match=said):
        answers.read(
            tmp_path / "a.toml", "int i;\n// BEGIN SOLUTION\n// write: n\nint n;\n// END SOLUTION\n", cuda=True
        )


EDITS_AND_REGIONS = """
[wrong.a]
expect = 'x'
edits = [['i;', 'j;'], ['''
int j;
''', '''
int k;
''']]

[right.b]
regions = ['''
int n, m;
''']
"""


def test_edits_and_regions_are_made_in_the_solution(tmp_path):
    source = "int i;\n// BEGIN SOLUTION\n// write: n\nint n;\n// END SOLUTION\n"
    (tmp_path / "a.toml").write_text(EDITS_AND_REGIONS)
    assert answers.read(tmp_path / "a.toml", source, cuda=True) == (
        [answers.Answer("a", "int k;\nint n;\n", "x")],
        [answers.Answer("b", "int i;\nint n, m;\n")],
    )
