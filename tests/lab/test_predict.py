"""Predictions: the first guess counts, nothing is shown before it, and a known slip is named."""

import json

import numpy as np
import pytest

from common import check
from common.lab import predict, progress


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    (tmp_path / progress.MARKER).touch()
    folder = tmp_path / "01_topology"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path


def printed(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_guess_beside_the_value(capsys, work):
    check.predict("blocks", 19, unit="blocks")
    check.reveal("blocks", 17, slips={18: "the head is no block", 19: "stem and head are no blocks"})
    assert printed(capsys) == [
        "Your guess: 19 blocks. It is locked; run the next cell.",
        "Your guess: 19 blocks. The answer: 17 blocks; your guess is 1.12× too high.",
        "stem and head are no blocks",
    ]
    kept = json.loads((work / "progress.json").read_text())["predictions"]
    assert kept == {"blocks": {"chapter": "01_topology", "guess": 19, "unit": "blocks", "truth": 17}}


def test_a_line_of_code_is_named_and_no_factor_of_it(capsys, work):
    with pytest.raises(NotImplementedError, match=r"\(the number of a line\)$"):
        check.predict("bug", unit="line")
    check.predict("bug", 6, unit="line")
    check.reveal("bug", 5, slips={6: "it reads what line 5 wrote"})
    assert printed(capsys) == [
        "Your guess: line 6. It is locked; run the next cell.",
        "Your guess: line 6. The answer: line 5; not the line that you guessed.",
        "it reads what line 5 wrote",
    ]
    kept = json.loads((work / "progress.json").read_text())["predictions"]["bug"]
    assert predict.how_far_off(kept) is None


def test_no_line_is_wider_than_jupyterlab_shows(capsys):
    check.predict("n", 21.7, unit="million multiply-adds of all convolutions")
    check.reveal("n", 10.8, slips={21.7: "word " * 40 + "\nsecond line"})
    _, first, second, *slip = printed(capsys)
    assert first == "Your guess: 21.7 million multiply-adds of all convolutions."
    assert second.startswith("The answer: 10.8 million multiply-adds of all convolutions; your guess is 2.01×")
    assert len(slip) == 4 and slip[-1] == "second line" and max(map(len, slip)) <= 95


def test_the_first_guess_counts(capsys):
    check.predict("n", 5)
    check.predict("n", 17)
    check.reveal("n", 17)
    assert printed(capsys)[1:] == [
        "Locked: your first guess, 5, counts.",
        "Your guess: 5. The answer: 17; your guess is 3.4× too low.",
    ]


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("", "(a number)"),
        ("blocks", "(a number of blocks)"),
        ("µs", "(a number of µs)"),
        ("%", "(a number: … %)"),
        ("· 10⁻⁴", "(a number: … · 10⁻⁴)"),
        ("of 100 digits", "(a number: … of 100 digits)"),
        ("per 100,000", "(a number: … per 100,000)"),
        ("×", "(a factor)"),
        ("times", "(a factor)"),
    ],
)
def test_what_is_expected_is_named(unit, said):
    with pytest.raises(NotImplementedError) as raised:
        check.predict("named", unit=unit)
    assert str(raised.value).endswith(said)


@pytest.mark.parametrize("nothing", [..., None])
def test_nothing_is_shown_before_a_guess(capsys, nothing):
    with pytest.raises(NotImplementedError, match=r"^write: your guess in the place of \.\.\. \(a number of µs\)$"):
        check.predict("time", nothing, unit="µs")
    with pytest.raises(NotImplementedError, match=r"^write: your guess for 'time' first"):
        check.reveal("time", 3.2)
    assert printed(capsys) == []


@pytest.mark.parametrize(
    ("guess", "value", "said"),
    [
        (17, 17, "exactly right"),
        (100.0, 101.0, "; right."),
        (16, 17, "1.06× too low"),
        (-3, 4, "off by 7"),
        (0, 4, "off by 4"),
        (3e6, 1.2e7, "4× too low"),
        (np.float32(2), np.int64(1), "2× too high"),
    ],
)
def test_how_far_off(capsys, guess, value, said):
    check.predict("x", guess)
    check.reveal("x", value)
    assert said in capsys.readouterr().out


def test_choices_and_orders(capsys):
    check.predict("which", "add", choices=["add", "gemm"])
    check.reveal("which", "gemm", slips={"add": "it moves more bytes, and computes less"})
    check.predict("order", ["a", "c", "b"], order=["a", "b", "c"])
    check.reveal("order", ("a", "b", "c"), slips={("a", "c", "b"): "b comes before c"})
    lines = printed(capsys)
    assert lines[1:3] == [
        "Your guess: add. The answer: gemm; not what you guessed.",
        "it moves more bytes, and computes less",
    ]
    assert lines[4:] == [
        "Your guess: a < c < b. The answer: a < b < c; 2 of 3 pairs are in the right order.",
        "b comes before c",
    ]


def test_a_right_guess_has_no_slip(capsys):
    check.predict("x", 100.0)
    check.reveal("x", 100.5, slips={100.0: "never said"})
    assert "never said" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (dict(guess="many"), TypeError, "guess: must be a number, got 'many'"),
        (dict(guess=True), TypeError, "guess: must be a number, got True"),
        (dict(guess=float("nan")), ValueError, "guess: must be a finite number"),
        (dict(guess="c", choices=["a", "b"]), ValueError, "guess: must be one of 'a', 'b', got 'c'"),
        (dict(guess=["a"], order=["a", "b"]), ValueError, "guess: must be a list of 'a', 'b' in order"),
        (dict(guess=1, choices=["a"], order=["a"]), ValueError, "give one of them"),
    ],
)
def test_a_guess_of_another_kind(work, arguments, kind, said):
    with pytest.raises(kind, match=said):
        check.predict("x", **arguments)
    assert progress.load()["predictions"] == {}


def test_no_folder_no_file(tmp_path_factory, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(progress, "_in_memory", {})
    check.predict("x", 1)
    check.reveal("x", 1)
    assert "exactly right" in capsys.readouterr().out
    assert list(progress.Path.cwd().iterdir()) == []


DAMAGED = [
    "{",
    100_000 * "[",
    '{"exercises": {"add": 1}}',
    '{"exercises": {"add": {"hints": "two"}}}',
    '{"predictions": {"y": {"guess": 1}}}',
    '{"predictions": {"y": {"guess": 1, "unit": "s", "chapter": []}}}',
    '{"engine": {"graph.py": 1}}',
    '{"milestones": {"1": {"passed": true, "reference_files": 1}}}',
    '{"milestones": {"1": {"passed": true, "reference_files": [1]}}}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_set_aside(work, text):
    (work / "progress.json").write_text(text)
    check.predict("x", 1)
    assert (work / "progress.json.unreadable").read_text() == text
    assert progress.load()["predictions"]["x"]["guess"] == 1


def test_an_exercise_once_passed_stays_so():
    progress.record_try("add", True)
    progress.record_try("add", False)
    progress.record_hint("add", 2)
    progress.record_hint("add", 1)
    assert progress.load()["exercises"] == {"add": {"passed": True, "tries": 2, "hints": 2}}


@pytest.mark.parametrize(
    ("guess", "truth"),
    [
        (3.0, float("inf")),
        (float("nan"), 1.0),
        (1e308, 1e-308),
        (5e-324, 1.0),
        pytest.param(10**400, 1, id="huge"),
        (0, 2),
    ],
)
def test_what_has_no_factor(guess, truth):
    """Of a file that somebody changed, or of numbers whose quotient no float holds."""
    assert predict.how_far_off({"guess": guess, "truth": truth}) is None


def test_a_factor_is_at_least_one():
    assert predict.how_far_off({"guess": 1.0, "truth": 4.0}) == predict.how_far_off({"guess": 16, "truth": 4}) == 4.0
