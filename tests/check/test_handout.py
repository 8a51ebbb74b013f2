"""A class's copy of the course: some exercises without hints and solutions, everything else as it is."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from common import check
from common.check import copies, exercises, handout, hints, unfold
from common.check.exercises import REPOSITORY, Exercise
from common.lab.engine import NotWrittenError
from common.report import generated

# Python, CUDA C++, a bug to find, and one whose solution a notebook takes for a learner without a right kernel
HELD = ("make_divisible", "transpose", "find_the_race", "winograd_output")
GIT = shutil.which("git") and (REPOSITORY / ".git").exists()
needs_git = pytest.mark.skipif(not GIT, reason="needs a clone: git lists the files")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course as a class gets it."""
    folder = tmp_path_factory.mktemp("class") / "course"
    handout.make(folder, handout.chosen(HELD)[0])
    return folder


def held(course: Path) -> list[Exercise]:
    return [one for one in exercises.find_all(course) if one.name in HELD]


@needs_git
def test_solutions_and_hints_are_gone(course):
    assert len(held(course)) == len(HELD)
    for exercise in held(course):
        whole = exercises.find(exercise.name)
        assert exercise.source == exercise.skeleton == whole.skeleton != whole.source
        assert unfold.sections(exercise) == ([], unfold.HELD_BACK)
        assert exercise.check()  # it loads
    for path in unfold.notebooks(course):
        for cell in json.loads(path.read_text())["cells"]:
            tags = cell["metadata"].get("tags", [])
            if any(f"hints-{name}" in tags for name in HELD):
                assert generated.source(cell) == unfold.HELD_BACK
            if any(f"exercise-{name}" in tags for name in HELD):
                assert cell["outputs"] == [] and "BEGIN SOLUTION" not in generated.source(cell)


@needs_git
def test_nothing_else_changes(course):
    names = {file for file in handout._tracked(REPOSITORY)}
    assert names == {path.relative_to(course).as_posix() for path in course.rglob("*") if path.is_file()}
    assert "Makefile" in names and not any(name.startswith("tests/") and not name.endswith(".csv") for name in names)
    changed = {name for name in names if (course / name).read_bytes() != (REPOSITORY / name).read_bytes()}
    solutions = {one.solution.relative_to(course).as_posix() for one in held(course)}
    texts = {one.hints_file.relative_to(course).as_posix() for one in held(course)}
    assert changed - solutions - texts == {
        path.relative_to(REPOSITORY).as_posix() for path in unfold.notebooks()
        if any(f'"exercise-{name}"' in path.read_text() for name in HELD)
    }  # fmt: skip
    others = [one for one in exercises.find_all(course) if one.name not in HELD]
    assert all(unfold.render(one) == unfold.render(exercises.find(one.name)) for one in others)
    assert unfold.run(check=True, root=course)


@needs_git
def test_learners_copies_are_those_of_the_whole_course(course):
    for name in ("01_topology/1_rebuild_from_the_table.ipynb", "04_kernels/1_seeing_memory.ipynb"):
        assert (course / name).read_bytes() != (REPOSITORY / name).read_bytes()
        assert copies.make(Path(name), course / "work" / name, course) == copies.make(
            Path(name), REPOSITORY / "work" / name
        )


@needs_git
def test_a_hint_says_that_it_is_held_back(course, capsys, monkeypatch):
    monkeypatch.chdir(course / "04_kernels")
    assert check.hint("transpose") is None
    assert capsys.readouterr().out == f"transpose: {unfold.HELD_BACK}\n\n"
    with pytest.raises(NotWrittenError, match="winograd_output: The hints and the solution"):
        check.kernel("winograd_output", solution=True)
    monkeypatch.setattr(hints, "_given", {})
    check.hint("row_sums")
    assert "row_sums, hint 1 of 3" in capsys.readouterr().out


def test_a_chapter_or_a_notebook_holds_back_all_but_the_engines():
    everything, left = handout.chosen(["04"])
    assert {one.name for one in everything} | set(left) == {
        one.name for one in exercises.find_all() if one.folder.parents[1].name == "04_kernels"
    }
    assert left and all(exercises.find(name).engine_file for name in left)
    one, left = handout.chosen(["2_add", "grid_stride_add"])
    assert "grid_stride_add" in {exercise.name for exercise in one} and left == ["engine_add"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["transpos"], "--hold-back: expected an exercise, a chapter or a notebook, got 'transpos'"),
        (["engine_add"], "--hold-back: engine_add cannot be held back: milestones compare with"),
        (["1_where_we_are", "10_sparsit"], "got '10_sparsit': no notebook is called '10_sparsit'; did you mean"),
    ],
)
def test_other_names_are_refused(names, said, tmp_path, invoke):
    options = [word for name in names for word in ("--hold-back", name)]
    result = invoke("handout", tmp_path / "course", *options)
    assert result.exit_code == 2 and said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "course").exists()


def test_a_folder_with_files_stays_as_it_is(tmp_path, invoke):
    (tmp_path / "a").touch()
    for folder, said in ((tmp_path, "got files in it"), (tmp_path / "a", "got a file")):
        result = invoke("handout", folder, "--hold-back", "transpose")
        assert result.exit_code == 2 and f"expected a new or empty folder, {said}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_error_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(handout, "_tracked", lambda root: ["Makefile"])
    with pytest.raises(FileNotFoundError):
        handout.make(tmp_path / "course", [exercises.find("transpose")])
    assert list(tmp_path.iterdir()) == []


def test_without_a_clone_it_says_what_is_expected(tmp_path):
    with pytest.raises(ValueError, match="expected a clone of the course"):
        handout.make(tmp_path / "course", [], root=tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_git
def test_the_command_says_what_is_held_back(tmp_path, invoke, monkeypatch):
    monkeypatch.setattr(handout, "_tracked", lambda root: _of_chapter("04_kernels"))
    result = invoke("handout", tmp_path / "course", "--hold-back", "2_add", "--hold-back", "transpose")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].endswith("the reference's kernels: engine_add")
    assert "grid_stride_add" in result.output and (tmp_path / "course" / "04_kernels" / "2_add.ipynb").exists()


def _of_chapter(chapter: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", chapter], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()
