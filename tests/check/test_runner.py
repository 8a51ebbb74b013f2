"""check.run(), on toy exercises: a message for every outcome, and never an error for a wrong answer."""

import threading
import time

import pytest

from common import check
from common.check import exercises, hints
from common.lab import markup, progress

SKELETON = '''def double(x):
    """Twice x."""
    raise NotImplementedError("write: twice x")
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
    """What was printed, as one line: test_feedback.py is about the lines."""
    return " ".join(capsys.readouterr().out.split())


def test_passed(chapter, capsys):
    result = check.run("double", lambda x: 2 * x)
    assert result and result.passed
    assert printed(capsys) == "✓ double: passed (3 checks)" == result.message


def test_wrong_gives_the_hint(chapter, capsys):
    result = check.run("double", lambda x: x * x)
    assert not result
    assert printed(capsys) == "✗ double: double(-1) is 1, expected -2. Hint: negative numbers too"


def test_the_untouched_skeleton_is_not_started(chapter, capsys, tmp_path):
    result = check.run("double", written(tmp_path, SKELETON))
    assert not result and not result.started
    assert printed(capsys) == "✗ double: not started yet: write twice x."


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
    assert time.monotonic() - began < 30  # a busy machine starts processes slowly
    assert "not finished after 0.2 s" in printed(capsys)


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


def test_an_unknown_exercise_is_told_those_with_a_similar_name(chapter):
    with pytest.raises(LookupError) as error:
        check.run("recptive_field", None)
    assert str(error.value) == "no exercise is called 'recptive_field'. Did you mean receptive_field?"
    with pytest.raises(LookupError) as error:
        check.run("qqqqqq", None)
    assert str(error.value) == "no exercise is called 'qqqqqq'"


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


def test_answers_and_hints_are_recorded(chapter, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_in_memory", {})
    monkeypatch.setattr(hints, "_given", {})
    (chapter / "solutions").mkdir()
    (chapter / "solutions" / "double.py").write_text("def double(x):\n    return 2 * x\n")
    check.run("double", None)
    assert progress.load()["exercises"] == {}, "a stub is no try"
    check.run("double", lambda x: 3 * x)
    assert progress.load()["exercises"] == {"double": {"passed": False, "tries": 1, "hints": 0}}
    check.hint("double")
    assert check.run("double", lambda x: 2 * x)
    assert progress.load()["exercises"] == {"double": {"passed": True, "tries": 2, "hints": 1}}


def test_arguments_are_inputs(tmp_path, monkeypatch, capsys):
    text = "from common.check import expect\n\n\nINOUT = {'fill': ['out']}\nVIEWS_ALLOWED = ['view']\n\n\n"
    text += "def check(first, fill, view):\n    import numpy as np\n    x, out = np.ones(3), np.zeros(3)\n"
    text += "    expect(first([3, 2]), 3, what='first', hint='')\n    fill(out)\n"
    text += "    expect(out, x, what='out', hint='')\n    expect(view(x), x, what='view', hint='')\n"
    make_exercise(tmp_path, "inputs", text)
    monkeypatch.chdir(tmp_path)

    def fill(out):
        out[:] = 1

    assert check.run("inputs", lambda x: x[0], fill, lambda x: x[:])
    assert not check.run("inputs", lambda x: x.pop(0), fill, lambda x: x[:])
    assert "first changes its argument `x`: x has 1 items, it had 2" in printed(capsys)


def test_a_class_is_handed_on_as_it_is(tmp_path, monkeypatch):
    text = "import inspect\nfrom common.check import require\n\n\ndef check(Counter):\n"
    text += "    require(inspect.isclass(Counter) and Counter(2).twice() == 4, what='it', hint='')\n"
    make_exercise(tmp_path, "counter", text)
    monkeypatch.chdir(tmp_path)

    class Counter:
        def __init__(self, n):
            self.n = n

        def twice(self):
            self.n *= 2
            return self.n

    assert check.run("counter", Counter)


def test_in_this_process_where_there_is_no_other(chapter, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(check.runner, "isolated", False)
    changed = []
    assert check.run("double", lambda x: changed.append(x) or 2 * x) and len(changed) == 3
    endless = written(tmp_path, "def double(x):\n    while True:\n        pass\n")
    assert "not finished after 0.2 s" in check.run("double", endless, seconds=0.2).message
    time.sleep(0.3)  # the timer is off
    with pytest.raises(KeyboardInterrupt):
        check.run("double", written(tmp_path, "def double(x):\n    raise KeyboardInterrupt\n"))


# ---- Kernels for the cells below an exercise


def test_a_kernel_that_is_right_can_be_launched_by_the_cells_below(monkeypatch):
    monkeypatch.setattr(check.runner, "_right", {})
    with pytest.raises(NotImplementedError, match=r"no kernel of this session passes implicit_tile yet.*solution=True"):
        check.kernel("implicit_tile")
    assert check.kernel("implicit_tile", solution=True).name == "convolve"
    solution = markup.plain(check.find("implicit_tile").source, cuda=True)
    assert not check.run("implicit_tile", solution.replace("+ kh", "- kh"))
    with pytest.raises(NotImplementedError):
        check.kernel("implicit_tile")
    assert check.run("implicit_tile", solution)
    assert check.kernel("implicit_tile").name == "convolve"
