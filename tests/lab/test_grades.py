"""The CSV file of milestones: a row per learner and milestone, and nothing half-written."""

import ast
import csv
import math
import re
import shutil

import pytest

from common.lab import engine, grades, judging, markup, milestones, progress


def write_engine(place, *files):
    """An engine of the reference's files, own by their marks."""
    for file in files:
        progress.write_text(place / file, engine.reference_text(file).replace(" (reference)", ""))
    return place


@pytest.fixture
def learners(tmp_path):
    """A class: a right engine, a wrong one in work/, one with the reference's file, one that is no text, none."""
    folder = tmp_path / "class"
    own = ast.unparse(ast.parse(engine.reference_text("graph.py")))  # the same program, written in another way
    progress.write_text(folder / "ada" / "engine" / "graph.py", own)
    progress.write_text(folder / "bob" / "work" / "engine" / "graph.py", "def read(model):\n    return 7\n")
    progress.write_text(folder / "cyd" / "engine" / "graph.py", engine.reference_text("graph.py"))
    progress.write_text(folder / "dee" / "graph.py", "")
    (folder / "dee" / "graph.py").write_bytes(b"\xff\xfe")
    (folder / "eve").mkdir()
    (folder / ".hidden").mkdir()
    (folder / "readme.txt").touch()
    return folder


@pytest.fixture
def few_cases(monkeypatch):
    """The first two cases of chapter 01, judged in this process; test_milestones.py has those in child processes."""

    def judged(chapter, place):
        engine.open_engine(lambda: place)
        try:
            yield from [judging.judge(chapter, case) for case in judging.CASES[chapter]]
        finally:
            engine.open_engine()

    monkeypatch.setitem(judging.CASES, 1, judging.CASES[1][:2])
    monkeypatch.setattr(milestones, "_judged", judged)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_per_learner_and_milestone(learners, few_cases, tmp_path, invoke):
    report = tmp_path / "scores.csv"
    report.write_text("older")
    result = invoke("milestone", 1, "--report", report, "--learners", learners)
    assert result.exit_code == 0, result.output
    rows = {row["learner"]: row for row in read(report)}
    assert list(rows) == ["ada", "bob", "cyd", "dee", "eve"]
    assert {name: (row["passed"], row["cases passed"], row["cases"]) for name, row in rows.items()} == {
        "ada": ("yes", "2", "2"), "bob": ("no", "0", "2"), "cyd": ("yes", "2", "2"),
        "dee": ("no", "0", "2"), "eve": ("no", "0", "2"),
    }  # fmt: skip
    assert rows["ada"]["reference files"] == "" and rows["cyd"]["reference files"] == "graph.py"
    assert rows["ada"]["layers"] == rows["ada"]["layers, reference"] == str(99 + 151)
    assert rows["ada"]["sectors"] == "" and rows["bob"]["layers"] == ""
    assert "MobileNetV2 0.35, 64×64: graph.read returns a int without" in rows["bob"]["flaw"]
    assert "utf-8" in rows["dee"]["flaw"] and rows["eve"]["flaw"] == "no engine in engine/ or work/engine/"
    assert len(result.output.splitlines()) == 6 and "✓ ada, milestone 1: 2 of 2 cases\n" in result.output
    assert "5 rows" in result.output
    assert not list(learners.rglob("progress.json"))


def test_all_milestones_of_one_engine(tmp_path, monkeypatch, invoke):
    """Each row has the scores of its own milestone; totals are of the cases that pass, so both sides are comparable."""
    (tmp_path / progress.MARKER).touch()
    write_engine(tmp_path / "engine", *(file for chapter in milestones.CHAPTERS for file in judging.RUN[chapter]))
    scores = {
        1: {"layers": 3, "bytes": 8.0}, 2: {"error": 2e-7, "arrays": 4},
        4: {"error": math.inf, "sectors": 5.0, "µs": 2.5, "roof": 0.5}, 5: {"launches": 7, "peak memory": 4.0},
        6: {"launches": 3, "own error": 3e-7},
    }  # fmt: skip

    def judged(chapter, place):
        for number, case in enumerate(judging.CASES[chapter]):
            own = scores[chapter] if number else {key: score / 2 for key, score in scores[chapter].items()}
            yield judging.Outcome(case.name, number < 2, own, "" if number < 2 else "wrong")

    monkeypatch.setattr(milestones, "_judged", judged)
    monkeypatch.setattr(
        milestones, "reference", lambda chapter: {c.name: {"layers": 1} for c in judging.CASES[chapter]}
    )
    monkeypatch.chdir(tmp_path)
    result = invoke("milestone", "--report", "scores.csv")
    assert result.exit_code == 0, result.output
    rows = read("scores.csv")
    assert [(row["learner"], row["milestone"], row["passed"]) for row in rows] == [
        (tmp_path.name, str(chapter), "no") for chapter in milestones.CHAPTERS
    ]
    assert list(rows[0])[: len(grades.COLUMNS)] == list(grades.COLUMNS)
    filled = [{score: row[score] for score in grades.SCORES if row[score]} for row in rows]
    assert filled == [
        {"layers": "4.5", "bytes": "12"}, {"error": "2e-07", "arrays": "6"},
        {"sectors": "7.5", "µs": "3.75", "roof": "0.25"}, {"launches": "10.5", "peak memory": "6"},
        {"launches": "4.5", "own error": "3e-07"},
    ]  # fmt: skip
    assert [row["layers, reference"] for row in rows] == ["2"] * 5 and rows[0]["flaw"].endswith(": wrong")


@pytest.mark.parametrize("file", ["graph.py", "weights.py", "kernels/add.cu"])
def test_a_copy_of_the_references_solutions_is_told_from_an_own_file(file, tmp_path):
    def is_copied(text):
        progress.write_text(tmp_path / file, text)
        return grades.copied(tmp_path, file)

    assert not grades.copied(tmp_path, file)
    text = (engine.REFERENCE / file).read_text()
    comment = "//" if file.endswith(".cu") else "#"
    assert is_copied(text) and is_copied(engine.reference_text(file))
    assert is_copied("\n\n".join(f"{line}  {comment} mine" for line in text.split("\n")))
    assert not is_copied(markup.strip(text, file.endswith(".cu")))  # what the learner was given
    assert not is_copied(re.sub(r"\b(name|node|size|layer|own|flat|i|t)\b", r"my_\1", text))


def never(*_):
    raise AssertionError("an engine was run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--report", "scores.txt"], "--report: scores.txt: expected a name that ends in .csv"),
        (["--report", "no/scores.csv"], "--report: no/scores.csv: No such file or directory"),
        (["--report", "folder.csv"], "--report: folder.csv: expected a regular file, got a folder"),
        (["3", "--report", "scores.csv"], "--report: Chapter 03 has no milestone"),
        (["--learners", "class"], "--learners: expected --report FILE.csv"),
        (["--report", "scores.csv", "--learners", "no"], "--learners: no: expected a folder, got nothing there"),
        (["--report", "scores.csv", "--learners", "file"], "--learners: file: expected a folder, got a file"),
        (["--report", "scores.csv", "--learners", "empty"], "--learners: empty: expected an engine, or folders of"),
        (["--report", "scores.csv", "--learners", "class", "--learners", "class/ada"], "two learners are called 'ada'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_an_engine_runs(arguments, said, learners, monkeypatch, invoke):
    monkeypatch.chdir(learners.parent)
    monkeypatch.setattr(milestones, "_judged", never)
    (learners.parent / progress.MARKER).touch()
    write_engine(learners.parent / "engine", "graph.py")
    for name in ("folder.csv", "empty"):
        (learners.parent / name).mkdir()
    (learners.parent / "file").touch()
    result = invoke("milestone", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (learners.parent / "scores.csv").exists()


def test_an_engine_without_a_file_is_told_so_and_outside_of_a_course_there_is_none(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    assert "no folder work/" in invoke("milestone", "--report", "a.csv").stderr
    (tmp_path / progress.MARKER).touch()
    result = invoke("milestone", "--report", "a.csv")
    assert result.exit_code == 2 and "--report: " in result.stderr and "expected an engine" in result.stderr


def test_after_an_interruption_the_older_report_is_as_it_was(learners, tmp_path, monkeypatch):
    report = tmp_path / "scores.csv"
    report.write_text("older")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(milestones, "_judged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grades.write(report, grades.find_learners([learners]), (1,), say=lambda line: None)
    assert report.read_text() == "older" and sorted(path.name for path in tmp_path.iterdir()) == ["class", "scores.csv"]


def test_three_places_of_an_engine(tmp_path):
    for where in ("a", "b/engine", "c/work/engine"):
        write_engine(tmp_path / where, "kernels/add.cu")
    found = grades.find_learners([tmp_path])
    assert {name: place.relative_to(tmp_path).as_posix() for name, place in found.items()} == {
        "a": "a", "b": "b/engine", "c": "c/work/engine"
    }  # fmt: skip
    shutil.rmtree(tmp_path / "a")
    assert list(grades.find_learners([tmp_path / "b", tmp_path / "c"])) == ["b", "c"]
