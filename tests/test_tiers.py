"""The rows that stand for a product of parameters: every two values meet, in few rows; and what takes turns."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest
import tiers
from tiers import covering, part


def pairs(rows):
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


def test_every_two_values_meet_in_few_rows():
    rows = list(itertools.product("abcdefg", range(6), (False, True), ("x", "y")))
    taken = [rows[i] for i in covering(rows)]
    assert pairs(taken) == pairs(rows) and len(taken) < 60 < len(rows) == 168
    assert covering(rows) == covering(list(rows))


def test_what_never_met_is_not_made_up():
    rows = [("naive", "NCHW", 1), ("naive", "NCHW", 2), ("tiled", "NHWC", 1)]
    assert covering(rows) == [0, 1, 2]


def test_a_single_parameter_keeps_all_its_values():
    assert covering([(1,), (2,), (3,)]) == [0, 1, 2]
    assert covering([]) == []


@pytest.mark.parametrize("share", [1, 3, 40])
def test_the_parts_are_all_rows_each_once(share):
    rows = list(itertools.product("abc", range(6), (False, True)))
    parts = [part(rows, share, number) for number in range(min(share, len(rows)))]
    assert sorted(itertools.chain(*parts)) == list(range(len(rows)))
    assert part(rows, share, len(parts)) == parts[0], "then it is the first one's turn again"
    for taken in parts:
        assert all(
            len({rows[i][column] for i in taken}) == min(len(taken), most) for column, most in enumerate((3, 6, 2))
        )


def test_a_test_of_one_case_runs_in_every_part():
    assert [part([("only",)], 3, number) for number in range(3)] == [[0], [0], [0]]


@pytest.mark.parametrize("said", ["5", "every", None])
def test_a_turn_has_a_number_or_is_every_part(said, monkeypatch):
    monkeypatch.setattr(tiers, "ALL", False)
    monkeypatch.delenv("COURSE_TURN", raising=False)
    if said is not None:
        monkeypatch.setenv("COURSE_TURN", said)
    number = tiers.turn()
    assert number == 5 if said == "5" else number is None if said == "every" else number >= 0
    assert tiers.at_turn("abc") == (list("abc") if number is None else ["abc"[number % 3]])
    assert tiers.at_turn("abcde", 2, pace=2) == (
        list("abcde") if number is None else list("ace" if number // 2 % 2 == 0 else "bd")
    )
    assert tiers.at_turn("ab", 3) == (list("ab") if number is None else ["ab"[number % 2]])


def test_each_of_a_few_runs_has_its_turn_once(monkeypatch):
    monkeypatch.setattr(tiers, "ALL", False)
    for name in ("tests/a.py", "tests/b.py::test_c"):
        had = []
        for number in range(8):
            monkeypatch.setenv("COURSE_TURN", str(number))
            had.append(tiers.has_turn(name, 4))
        assert sum(had[:4]) == 1 and had[:4] == had[4:]
    monkeypatch.setenv("COURSE_TURN", tiers.EVERY)
    assert tiers.has_turn(name, 4)


def test_notebooks_take_turns_unless_they_have_changed(monkeypatch):
    monkeypatch.setattr(tiers, "ALL", False)
    monkeypatch.setattr(tiers, "changed_lately", lambda: frozenset(["04_kernels/b.ipynb"]))
    had = {name: [] for name in ("01_topology/a.ipynb", "04_kernels/a.ipynb", "04_kernels/b.ipynb")}
    for number in range(56):
        monkeypatch.setenv("COURSE_TURN", str(number))
        for name, turns in had.items():
            turns.append(tiers.notebook_has_turn(name))
    assert [sum(turns) for turns in had.values()] == [7, 4, 56]
    assert all((Path(__file__).parents[1] / folder).is_dir() for folder in tiers.NOTEBOOKS)


def test_a_notebook_has_changed_if_its_code_has(tmp_path):
    def commit(name, source, output, text="text", **metadata):
        cell = {"cell_type": "code", "source": [source], "outputs": [output]}
        cells = [{"cell_type": "markdown", "source": [text]}, cell]
        (tmp_path / name).write_text(json.dumps({"cells": cells, "metadata": metadata}))

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("same.ipynb", "edited.ipynb", "gone.ipynb", "text.ipynb"):
        commit(name, "1 + 1", "2", records="a")
    git("add", ".")
    git("commit", "-qm", "a")
    commit("same.ipynb", "1 + 1", "two", records="b")
    commit("edited.ipynb", "1 + 2", "3", records="b")
    commit("text.ipynb", "1 + 1", "2", "another text", records="a")
    commit("new.ipynb", "1 + 1", "2")
    (tmp_path / "gone.ipynb").unlink()
    (tmp_path / "a.py").write_text("a = 1")
    git("add", ".")
    git("commit", "-qm", "b")
    assert tiers.changed_lately(tmp_path, 1) == {"edited.ipynb", "new.ipynb", "gone.ipynb", "a.py"}


def test_the_cases_of_what_has_changed_need_no_turn(monkeypatch):
    changed = [
        "common/kernels/gemm/9_wgmma.cu", "a/naive.py", "04_kernels/exercises/to_mend/skeleton.cu",
        "tests/answers/02_weights/folded.toml", "05_network/2_memory.ipynb", "01_topology/exercises/hints.md",
    ]  # fmt: skip
    monkeypatch.setattr(tiers, "changed_lately", lambda: frozenset(changed))
    for case in ("gemm/9_wgmma-float", "to_mend", "folded-wrong 1", "05_network/2_memory"):
        assert tiers.names_changed(f"tests/a.py::test_it[{case}]")
    for case in ("naive", "another/skeleton-float", "hints", "exercises"):
        assert not tiers.names_changed(f"tests/a.py::test_it[{case}]")
    assert not tiers.names_changed("tests/a.py::test_9_wgmma"), "no case"


def test_folders_and_files_that_take_turns_are_there():
    root = Path(__file__).parents[1]
    for name in tiers.SHARES:
        path, _, test = name.partition("::")
        assert (root / path).is_dir() if path.endswith("/") else f"def {test}" in (root / path).read_text(), name
    assert tiers.share_of("tests/bench/test_bench_chain.py::test_a") == tiers.SHARES["tests/bench/"]
    assert tiers.share_of("tests/test_tiers.py::test_a") == 1
