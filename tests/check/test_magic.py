"""The extension in a real kernel: %%exercise in both languages, one output each, errors that say what to do."""

import json

import nbformat
import pytest
from nbclient import NotebookClient
from tiers import seldom

from common.check.exercises import REPOSITORY

CHECK = """from common.check import expect


def check(double):
    expect(double(2), 4, what="double(2)", hint="twice two")
"""
KERNEL = """extern "C" __global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
"""
KERNEL_CHECK = """import numpy as np

from common.check import expect, launch


def check(source):
    x, out = np.arange(77, dtype=np.float32), np.full(77, np.nan, np.float32)
    launch(source, "twice", (1,), (128,), (x, out, 77), what="twice of 77 numbers")
    expect(out, 2 * x, what="out", hint="two of each")
"""

CELLS = {
    "load": "%load_ext common.check",
    "check is there": "check.__name__",
    "right": "%%exercise double\ndef double(x):\n    return 2 * x",
    "of the namespace": "double(4), check.run('double', double).passed",
    "wrong": "%%exercise double\ndef double(x):\n    print('seen', x)\n    return x",
    "syntax": "%%exercise double\ndef double(x):\n    return (",
    "the one before": "double(4)",
    "raises": "%%exercise double\n\ndef double(x):\n    y = 1\n    return y / 0",
    "own error": "%%exercise double\n\n1 / 0",
    "no such name": "%%exercise double\ndef triple(x):\n    return 3 * x",
    "misspelt": "%%exercise duoble\ndef double(x):\n    return 2 * x",
    "stub": "%%exercise double\ndef double(x):\n    raise NotImplementedError('write: twice x')",
    "loop": "def double(x):\n    while True:\n        try:\n            pass\n        except:\n            pass\n"
    "check.run('double', double, seconds=1)",
    "exit": "import os\ncheck.run('double', lambda x: os._exit(1))",
    "input": "check.run('double', lambda x: input())",
    "kernel": f"%%exercise twice\n{KERNEL}",
    "kernel's bounds": f"%%exercise twice\n{KERNEL.replace('if (i < n) ', '')}",
    "kernel's error": f"%%exercise twice\n{KERNEL.replace('2.0f', 'tow')}",
    "hint": "check.hint('double')",
    "a stub elsewhere": "def fold(x):\n    raise NotImplementedError('write: the folded weight')\n\nfold(3)",
    "a stub inside": "from common.check import magic\nsorted([1], key=fold)",
    "not written": "raise NotImplementedError('something else')",
    "unknown name": "plan",
    "known name": "magic.name_lookup = {'plan': 'do the cell of section 2 of notebook 3 first'}.get\nplan",
    "still unknown": "other",
    "no check": "del check\ncheck.run('double', double)",
    "check again": "check.__name__",
}
ERRORS = {"own error", "syntax", "a stub elsewhere", "a stub inside", "not written", "unknown name", "known name",
          "still unknown", "no check"}  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, run one after the other in one kernel."""
    root = tmp_path_factory.mktemp("course")
    solutions = root / "01_toys" / "solutions"
    solutions.mkdir(parents=True)
    for name, text, solution in (("double", CHECK, "double.py"), ("twice", KERNEL_CHECK, "twice.cu")):
        folder = root / "01_toys" / "exercises" / name
        folder.mkdir(parents=True)
        (folder / "check.py").write_text(text)
        (solutions / solution).write_text("")
    hints = "# {}\n## Hint\nLook at `x`.\n\n## Solution\nTwice.\n"
    (folder.parent / "hints.md").write_text(hints.format("double") + hints.format("twice"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    path = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(path))
    client = NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(root)}})
    client.execute()
    return dict(zip(CELLS, [cell.outputs for cell in notebook.cells[1:]], strict=True))


def shown(outputs, cell):
    """The only output of a cell, which has to be one that HTML is shown of, as plain text."""
    assert [output.output_type for output in outputs[cell]] == ["display_data"], outputs[cell]
    assert set(outputs[cell][0].data) == {"text/plain", "text/html"}
    return outputs[cell][0].data["text/plain"]


def error(outputs, cell):
    (output,) = outputs[cell]
    assert output.output_type == "error"
    return output


@seldom(3)
def test_only_these_cells_fail(outputs):
    failed = {cell for cell, made in outputs.items() if any(one.output_type == "error" for one in made)}
    assert failed == ERRORS


def test_the_name_check_is_there(outputs):
    assert "common.check" in outputs["check is there"][0].data["text/plain"]
    assert "it is now: run the cell again" in "\n".join(error(outputs, "no check").traceback)
    assert "common.check" in outputs["check again"][0].data["text/plain"]


def test_python_in_one_cell(outputs):
    assert shown(outputs, "right") == "✓ double: passed (1 check)"
    assert outputs["of the namespace"][-1].data["text/plain"] == "(8, True)"
    printed, said = outputs["wrong"]
    assert printed.text == "seen 2\n"
    assert said.data["text/plain"] == "✗ double: double(2) is 2, expected 4.\nHint: twice two"


def test_a_cell_that_fails_takes_nothing_away(outputs):
    assert outputs["the one before"][-1].data["text/plain"] == "4"


def test_lines_are_the_editors(outputs):
    assert "ZeroDivisionError: division by zero, in line 5: `return y / 0`" in shown(outputs, "raises")
    assert "line 3" in "\n".join(error(outputs, "own error").traceback)
    assert "out-of-bounds, line 4" in outputs["kernel's bounds"][0].data["text/plain"]
    assert "line 4: 'tow' was not declared" in shown(outputs, "kernel's error")


def test_a_compilers_error_is_lines_with_a_caret(outputs):
    lines = shown(outputs, "kernel's error").splitlines()
    assert lines[0] == "✗ twice: the kernel does not compile:"
    assert lines[2].index("tow") == lines[3].index("^")
    assert "<pre " in outputs["kernel's error"][0].data["text/html"]


def test_a_picture_is_shown_below_its_message(outputs):
    message, picture = outputs["kernel's bounds"]
    assert message.data["text/plain"].startswith("✗ twice: twice of 77 numbers: out-of-bounds")
    assert "1 block of 128 threads traced" in picture.data["text/html"]


def test_what_is_missing_is_told_without_a_traceback(outputs):
    assert "the cell defines no `double`" in shown(outputs, "no such name")
    assert shown(outputs, "misspelt") == "✗ no exercise is called 'duoble'. Did you mean double?"
    assert shown(outputs, "stub") == "✗ double: not started yet: write twice x."


def test_the_kernel_lives_on(outputs):
    assert "not finished after 1 s, in line" in shown(outputs, "loop")
    assert "it has ended its process, with the exit status 1" in shown(outputs, "exit")
    assert "input() asks nobody here" in shown(outputs, "input")
    assert shown(outputs, "kernel") == "✓ twice: passed (5 checks)"


def test_a_hint_is_markdown(outputs):
    (output,) = outputs["hint"]
    assert output.data["text/markdown"] == "**double, hint 1 of 1**\n\nLook at `x`."


def test_a_stub_is_two_lines_wherever_it_is_called(outputs):
    found = error(outputs, "a stub elsewhere")
    assert (found.ename, found.evalue) == ("NotImplementedError", "write: the folded weight")
    first, second = found.traceback
    assert first == "not started yet: write the folded weight"
    assert second.startswith("  in fold(), line 2 of Cell In[")
    assert error(outputs, "a stub inside").traceback[0] == first
    other = error(outputs, "not written")
    assert "something else" in other.traceback[-1] and len(other.traceback) > 2


def test_a_name_that_a_stub_was_to_define(outputs):
    assert "name 'plan' is not defined" in error(outputs, "unknown name").traceback[-1]
    found = error(outputs, "known name")
    first, second = found.traceback
    assert first == "NameError: name 'plan' is not defined"
    assert second == "  do the cell of section 2 of notebook 3 first"
    assert (found.ename, found.evalue) == ("NameError", "name 'plan' is not defined")
    assert len(error(outputs, "still unknown").traceback) > 2


def test_outputs_can_be_stored_and_compared(outputs):
    assert json.loads(json.dumps(outputs)) == outputs
