"""check.run(), on toy exercises: one line for every outcome, and never an error for a wrong answer."""

import threading
import time

import pytest

from common import check
from common.check import exercises

SKELETON = '''def double(x):
    """Twice x."""
    ...  # your code
'''

CHECK = """from common.check import expect, expect_error


def check(double):
    expect(double(2), 4, what="double(2)", hint="twice two")
    expect(double(-1), -2, what="double(-1)", hint="negative numbers too")
    expect_error(TypeError, lambda: double(None), what="double(None)", hint="let Python complain")
"""


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A repository with one chapter and the exercise `double`, the current folder being the chapter's."""
    make_exercise(tmp_path, "double", CHECK, SKELETON)
    monkeypatch.chdir(tmp_path / "01_toys")
    return tmp_path / "01_toys"


def make_exercise(root, name, check_text, skeleton=SKELETON):
    folder = root / "01_toys" / "exercises" / name
    folder.mkdir(parents=True)
    (folder / "check.py").write_text(check_text)
    (folder / "skeleton.py").write_text(skeleton)
    return folder


def written(tmp_path, text, name="double"):
    """A learner's function, out of a file, so that its lines can be quoted."""
    path = tmp_path / "answer.py"
    path.write_text(text)
    return exercises.load(path)[name]


def printed(capsys):
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and out.endswith("\n")
    return out[:-1]


def test_passed(chapter, capsys):
    result = check.run("double", lambda x: 2 * x)
    assert result and result.passed
    assert printed(capsys) == "✓ double: passed (3 checks)" == result.message


def test_wrong_gives_the_hint(chapter, capsys):
    result = check.run("double", lambda x: x * x)
    assert not result
    assert printed(capsys) == "✗ double: double(-1) is 1, expected -2. Hint: negative numbers too"


def test_the_untouched_skeleton_is_not_started(chapter, capsys, tmp_path):
    assert not check.run("double", written(tmp_path, SKELETON))
    assert printed(capsys).startswith("✗ double: not started yet. Put your code in the place of")


@pytest.mark.parametrize("nothing", [None, ...])
def test_no_object_at_all_is_not_started(chapter, capsys, nothing):
    assert not check.run("double", nothing)
    assert "not started yet" in printed(capsys)


def test_a_forgotten_return(chapter, capsys, tmp_path):
    assert not check.run("double", written(tmp_path, "def double(x):\n    y = 2 * x\n"))
    assert printed(capsys) == "✗ double: double(2) gives nothing back yet. " + (
        "Hint: is there a line `return ...` at its end?"
    )


def test_an_error_in_the_answer_quotes_its_line(chapter, capsys, tmp_path):
    text = "def double(x):\n    # twice\n    return x[0] * 2\n"
    assert not check.run("double", written(tmp_path, text))
    said = printed(capsys)
    assert said.startswith("✗ double: TypeError: 'int' object is not subscriptable")
    assert said.endswith("in line 3: `return x[0] * 2`")


@pytest.mark.parametrize(
    "body", ["raise SystemExit", "raise KeyError('k')", "return double(x)", "assert False, 'a\\nb'", "exit()"]
)
def test_nothing_that_an_answer_does_gets_out(chapter, capsys, tmp_path, body):
    assert not check.run("double", written(tmp_path, f"def double(x):\n    {body}\n"))
    assert f"`{body}`" in printed(capsys)


def test_a_wrong_signature(chapter, capsys):
    assert not check.run("double", lambda: 4)
    said = printed(capsys)
    assert "takes 0 positional arguments but 1 was given" in said and "Hint:" in said


def test_something_that_is_no_function(chapter, capsys):
    assert not check.run("double", 4)
    assert "'int' object is not callable" in printed(capsys)


@pytest.mark.parametrize("body", ["pass", "try:\n            pass\n        except Exception:\n            pass"])
def test_an_endless_loop_ends(chapter, capsys, tmp_path, body):
    text = f"def double(x):\n    while True:\n        {body}\n"
    began = time.monotonic()
    assert not check.run("double", written(tmp_path, text), seconds=0.2)
    assert time.monotonic() - began < 5
    assert "not finished after 0.2 s" in printed(capsys)


def test_the_timer_is_off_afterwards(chapter, capsys):
    assert check.run("double", lambda x: 2 * x, seconds=0.1)
    time.sleep(0.3)


def test_another_thread_has_no_limit_but_a_result(chapter, capsys):
    results = []
    thread = threading.Thread(target=lambda: results.append(check.run("double", lambda x: 2 * x)))
    thread.start()
    thread.join()
    assert results[0]


def test_the_same_answer_gives_the_same_line(chapter, capsys):
    for _ in range(2):
        check.run("double", lambda x: object())
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and "0x" not in first


def test_several_objects(tmp_path, monkeypatch, capsys):
    text = "from common.check import expect\n\n\ndef check(one, two):\n"
    text += "    expect(one, 1, what='one', hint='1')\n    expect(two(), 2, what='two()', hint='2')\n"
    make_exercise(tmp_path, "pair", text)
    monkeypatch.chdir(tmp_path)
    assert check.run("pair", 1, lambda: 2)
    assert not check.run("pair", 1, lambda: 3)
    with pytest.raises(TypeError, match=r"1 answers given, 2 expected: check.run\('pair', one, two\)"):
        check.run("pair", 1)


def test_an_edited_check_counts_at_once(chapter, capsys):
    folder = chapter / "exercises" / "double"
    (folder / "check.py").write_text(CHECK.replace("4, what", "5, what"))
    assert not check.run("double", lambda x: 2 * x)


def test_an_unknown_exercise(chapter):
    with pytest.raises(LookupError, match="no exercise is called 'triple'"):
        check.run("triple", None)


def test_found_from_anywhere_below(chapter, monkeypatch, capsys):
    (chapter / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(chapter / "deep" / "er")
    assert check.run("double", lambda x: 2 * x)


def test_a_notebook_shows_nothing_of_the_result(chapter, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    result = check.run("double", lambda x: 2 * x)
    data, _ = InteractiveShell.instance().display_formatter.format(result)
    assert data == {}
    InteractiveShell.clear_instance()
