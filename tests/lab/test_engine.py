"""The learner's engine: saved part by part, imported anew, never lost, and the reference at hand."""

import ast
import json
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from tiers import seldom

from common import cuda
from common.check.exercises import find
from common.lab import engine, markup, progress
from common.lab.engine_files import FILES
from common.lab.operators import OPERATORS

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A learner's folder without an engine; the current folder is a chapter in it."""
    (tmp_path / progress.MARKER).touch()
    (tmp_path / "02_weights").mkdir()
    monkeypatch.chdir(tmp_path / "02_weights")
    engine.open_engine()
    return tmp_path


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A folder outside of any work/, and a process that has no engine yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "_temporary", None)
    engine.open_engine()
    return tmp_path


@pytest.fixture
def shell(monkeypatch):
    shell = InteractiveShell()
    monkeypatch.setattr(engine, "_shell", lambda: shell)
    yield shell
    engine.open_engine()


def cell(shell, line: str, text: str) -> None:
    engine.engine_magic(line, textwrap.dedent(text), shell)


FIRST = "import math\n\n\ndef half(x):\n    return x / 2\n"


# Saving


def test_a_cell_is_run_and_saved(work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    assert shell.user_ns["half"](3) == 1.5
    assert capsys.readouterr().out.startswith("✓ engine/graph.py: saved, part layers (still to come: constants, ")
    assert (work / "engine" / "graph.py").read_text() == "# -- part: layers\n" + FIRST
    from engine import graph

    assert graph.half(5) == 2.5 and graph.__file__ == str(work / "engine" / "graph.py")
    assert progress.load()["engine"] == {"graph.py": "own"}


def test_parts_stand_in_the_references_order_and_are_replaced(work, shell):
    cell(shell, "graph.py cost", "def cost():\n    return 1\n")
    cell(shell, "graph.py mine", "def mine():\n    return 2\n")
    cell(shell, "graph.py layers", FIRST)
    cell(shell, "graph.py cost", "def cost():\n    return 3\n")
    parts = engine.parts((work / "engine" / "graph.py").read_text())
    assert list(parts) == ["layers", "cost", "mine"]
    assert parts["cost"].text == "def cost():\n    return 3\n"
    from engine import graph

    assert (graph.cost(), graph.mine(), graph.half(2)) == (3, 2, 1)


def test_a_file_without_parts_is_replaced_as_a_whole(work, shell, capsys):
    cell(shell, "weights.py to_array", FIRST)
    cell(shell, "weights.py", "x = 1\n")
    assert (work / "engine" / "weights.py").read_text() == "x = 1\n"
    assert capsys.readouterr().out.endswith(f"✓ engine/weights.py: saved\n{engine.UNCHECKED}\n")
    cell(shell, "weights.py fold", "y = 2\n")  # what was there before the first part stays
    assert (work / "engine" / "weights.py").read_text() == "x = 1\n\n\n# -- part: fold\ny = 2\n"


def test_saving_twice_in_a_second_is_seen_by_names_that_a_notebook_has(work, shell):
    cell(shell, "graph.py layers", "def size():\n    return 1\n")
    from engine import graph

    cell(shell, "graph.py layers", "def size():\n    return 2\n")
    assert graph.size() == 2
    cell(shell, "graph.py layers", "def other():\n    return 3\n")
    assert not hasattr(graph, "size")
    from engine import graph as again

    assert again is graph and again.other() == 3


def test_a_module_that_builds_on_another_sees_what_was_saved(work, shell):
    cell(shell, "graph.py layers", "NUMBER = 1\n")
    cell(shell, "weights.py to_array", "from engine.graph import NUMBER\n")
    from engine import weights

    cell(shell, "graph.py layers", "NUMBER = 2\n")
    assert weights.NUMBER == 2
    assert sys.modules["engine.weights"] is weights


def test_marks_of_solutions_are_not_saved(work, shell):
    cell(shell, "graph.py constants", engine.reference_parts("graph.py")["layers"] + "\n" + MARKED)
    text = (work / "engine" / "graph.py").read_text()
    assert "SOLUTION" not in text and "write:" not in text and "return size - 1" in text


MARKED = """
def output(size):
    # BEGIN SOLUTION
    # write: the size (in pixels)
    return size - 1
    # END SOLUTION
"""


def test_a_stub_is_not_saved(work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    capsys.readouterr()
    cell(
        shell, "graph.py layers", markup.strip(MARKED) + "\n" + markup.strip(MARKED).replace("size (in pixels)", "sum")
    )
    assert capsys.readouterr().out == (
        "✗ engine/graph.py, part layers: not started yet. Still to write: the size (in pixels); the sum."
        " Nothing is saved.\n"
    )
    assert (work / "engine" / "graph.py").read_text() == "# -- part: layers\n" + FIRST
    with pytest.raises(NotImplementedError, match="write: "):
        shell.user_ns["output"](3)
    cell(shell, "graph.py layers", 'raise NotImplementedError("write: all of it")\n')
    assert "not started yet. Still to write: all of it." in capsys.readouterr().out


@pytest.mark.parametrize(("text", "error"), [("def f(:\n", SyntaxError), ("x = 1\nundefined\n", NameError)])
def test_a_cell_that_raises_is_not_saved(text, error, work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    capsys.readouterr()
    with pytest.raises(error):
        cell(shell, "graph.py layers", text)
    assert capsys.readouterr().out == "✗ engine/graph.py, part layers: not saved, the cell raised an error.\n"
    assert (work / "engine" / "graph.py").read_text() == "# -- part: layers\n" + FIRST
    assert [path.name for path in (work / "engine").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("grpah.py", "did you mean graph.py"),
        ("kernels/ad.cu", "did you mean kernels/add.cu"),
        ("../graph.py", "the engine has no file '../graph.py'"),
        ("/tmp/x.py", "the engine has no file '/tmp/x.py'"),
        ("__init__.py", "the engine has no file '__init__.py'"),
        ("", "which file? graph.py, weights.py"),
        ("graph.py layer", "graph.py has no part 'layer': did you mean layers?"),
        ("graph.py a/b", "part: must be one word, got 'a/b'"),
    ],
)
def test_misspelt_names(line, said, work, shell):
    with pytest.raises(UsageError) as raised:
        cell(shell, line, FIRST)
    assert said in str(raised.value)
    assert not (work / "engine" / "graph.py").exists()


def test_the_file_is_replaced_in_one_step(work, shell, monkeypatch):
    cell(shell, "graph.py layers", FIRST)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(engine.os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        cell(shell, "graph.py layers", "x = 1\n")
    assert (work / "engine" / "graph.py").read_text() == "# -- part: layers\n" + FIRST
    assert sorted(path.name for path in (work / "engine").iterdir()) == ["__init__.py", "graph.py"]


ADD = """
extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: the guard and the sum
    if (i < n) out[i] = a[i] + b[i];
    // END SOLUTION
}
"""


GRID = "// grid: (n + 255) / 256\n// block: 256\n"
SIMPLE_ADD = GRID + ADD.replace("    // BEGIN SOLUTION\n", "").replace("    // END SOLUTION\n", "").replace(
    "    // write: the guard and the sum\n", "")  # fmt: skip


@pytest.fixture
def checked(work, monkeypatch):
    """A notebook with `%load_ext common.check`."""
    from common.check import magic

    shell = InteractiveShell()
    monkeypatch.setattr(engine, "_shell", lambda: shell)
    magic.load_ipython_extension(shell)
    yield shell
    engine.open_engine()


@seldom(6)
def test_a_kernel_is_checked_before_it_is_saved(work, checked, capsys):
    reference = (engine.REFERENCE / "kernels" / "add.cu").read_text()
    saved = work / "engine" / "kernels" / "add.cu"
    for text, said in (
        (markup.strip(reference, cuda=True), "not started yet. Still to write: one thread per vector"),
        (reference.replace("x.y + y.y", "x.y"), "kernels/add.cu: not saved.\n"),
        (reference.replace("float4 x", "flaot4 x"), "kernels/add.cu: not saved.\n"),
    ):
        checked.run_cell(f"%%engine kernels/add.cu\n{text}")
        assert said in capsys.readouterr().out
        assert not saved.exists()
    checked.run_cell(f"%%engine kernels/add.cu\n{reference}")
    told = capsys.readouterr().out
    assert "✓ engine_add: passed" in told and told.endswith("✓ engine/kernels/add.cu: saved\n")
    assert saved.read_text() == markup.plain(reference, cuda=True)
    checked.run_cell(f"%%engine kernels/add.cu\n{reference.replace('t < n % 4', 't < n % 3')}")
    assert "not saved; what was saved before stays.\n" in capsys.readouterr().out
    assert saved.read_text() == markup.plain(reference, cuda=True)
    checked.run_cell(f"%%engine kernels/add.cu\n{SIMPLE_ADD}")
    told = capsys.readouterr().out
    assert "right, and not yet what was asked" in told and told.endswith("✓ engine/kernels/add.cu: saved\n")
    assert saved.read_text() == SIMPLE_ADD


def test_a_saved_kernel_is_launched_by_its_name(work, shell, capsys):
    from engine import kernels

    with pytest.raises(engine.NotWrittenError, match=r"no kernels/add.cu yet: 04_kernels/2_add.ipynb writes it"):
        kernels.add  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'ad': it has add, pool, gemm"):
        kernels.ad  # noqa: B018
    cell(shell, "kernels/add.cu", SIMPLE_ADD)
    a, out = cuda.asarray(np.arange(300, dtype=np.float32)), cuda.full(300, np.nan, np.float32)
    assert kernels.add.size(a, a, out, 300).grid == (2,)
    kernels.add(a, a, out, 300)
    np.testing.assert_array_equal(cuda.asnumpy(out), 2 * np.arange(300))
    assert kernels.add.trace(a, a, out, 300).global_loads.requests == 20
    cell(shell, "kernels/add.cu", SIMPLE_ADD.replace("a[i] + b[i]", "a[i] - b[i]"))
    kernels.add(a, a, out, 300)
    assert not cuda.asnumpy(out).any()
    with pytest.raises(TypeError, match=r"add\(a, b, out, n\) takes 4 arguments, got 3"):
        kernels.add(a, a, out)


def test_the_reference_kernel_keeps_ones_own_aside(work, shell, capsys):
    cell(shell, "kernels/add.cu", SIMPLE_ADD)
    engine.use_reference("kernels/add")
    assert 'Yours is kept as add.own.cu: use_own("kernels/add")' in capsys.readouterr().out
    assert progress.load()["engine"] == {"kernels/add.cu": "reference"}
    engine.use_own("kernels/add.cu")
    assert (work / "engine" / "kernels" / "add.cu").read_text() == SIMPLE_ADD
    assert progress.load()["engine"] == {"kernels/add.cu": "own"}
    engine.use_reference("kernels/add")
    cell(shell, "kernels/add.cu", SIMPLE_ADD)
    assert progress.load()["engine"] == {"kernels/add.cu": "own"}


def test_a_kernel_is_compiled_and_saved(work, shell, capsys):
    cell(shell, "kernels/add.cu", ADD)
    assert capsys.readouterr().out == f"✓ engine/kernels/add.cu: saved\n{engine.UNCHECKED}\n"
    text = (work / "engine" / "kernels" / "add.cu").read_text()
    assert "out[i] = a[i] + b[i];" in text and "SOLUTION" not in text
    cell(shell, "kernels/add", ADD.replace("a[i] +", "c[i] +"))
    assert "✗ engine/kernels/add.cu: not saved, it does not compile.\n" in (told := capsys.readouterr().out)
    assert "'c'" in told or "c[i]" in told
    cell(shell, "kernels/add.cu", markup.strip(ADD, cuda=True))
    assert "not started yet. Still to write: the guard and the sum. Nothing is saved." in capsys.readouterr().out
    assert (work / "engine" / "kernels" / "add.cu").read_text() == text


def test_an_answer_to_an_exercise_is_kept(work, shell, capsys):
    exercise = find("same_padding", REPOSITORY)
    for name, text in (("solution", exercise.source), ("stub", exercise.skeleton)):
        path = work / f"{name}.py"
        path.write_text(text)
        namespace: dict = {}
        exec(compile(text, str(path), "exec"), namespace)
        engine.keep("graph.py", namespace["same_padding"])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "✗ engine/graph.py, part same_padding: not started yet, nothing is saved."
    )
    from engine import graph

    assert graph.same_padding(4, 3, 2) == (0, 1)
    with pytest.raises(TypeError, match="expected functions written in this notebook, got 3"):
        engine.keep("graph.py", 3)


# The reference


def test_the_reference_keeps_ones_own_aside(work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    engine.use_reference("graph")
    assert 'is the reference\'s now. Yours is kept as graph.own.py: use_own("graph")' in capsys.readouterr().out
    assert progress.load()["engine"] == {"graph.py": "reference"}
    from engine import graph

    assert graph.read
    cell(shell, "graph.py layers", "x = 1\n")  # a part of one's own among the reference's
    told = capsys.readouterr().out
    assert "saved, part layers (still the reference's: constants, clip_bounds, " in told
    assert told.endswith(f'. To bring back your own: use_own("graph")\n{engine.UNCHECKED}\n')
    assert progress.load()["engine"] == {"graph.py": "reference"}
    engine.use_reference("graph.py")
    assert "kept as graph.own2.py" in capsys.readouterr().out
    engine.use_own("graph")
    assert engine.parts((work / "engine" / "graph.py").read_text())["layers"].text == "x = 1\n"


def test_ones_own_comes_back_with_what_was_saved_since(work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    cell(shell, "graph.py cost", "def cost():\n    return 1\n")
    engine.use_reference("graph")
    cell(shell, "graph.py kind", "def kind():\n    return 2\n")
    engine.use_own("graph")
    assert "engine/graph.py is yours again. Saved since then, and kept: kind.\n" in capsys.readouterr().out
    assert list(engine.parts((work / "engine" / "graph.py").read_text())) == ["layers", "kind", "cost"]
    assert progress.load()["engine"] == {"graph.py": "own"}
    assert not (work / "engine" / "graph.own.py").exists()


def test_the_newer_text_of_a_part_stays_and_the_older_one_is_not_deleted(work, shell, capsys):
    cell(shell, "graph.py layers", FIRST)
    engine.use_reference("graph")
    cell(shell, "graph.py layers", "x = 1\n")
    engine.use_own("graph")
    assert capsys.readouterr().out.endswith("kept: layers. The older text is in graph.own.py.\n")
    assert (work / "engine" / "graph.py").read_text() == "# -- part: layers\nx = 1\n"
    assert (work / "engine" / "graph.own.py").read_text() == "# -- part: layers\n" + FIRST


def test_the_references_file_is_own_again_once_every_part_is(work, shell):
    engine.use_reference("weights")
    for name, text in engine.reference_parts("weights.py").items():
        assert progress.load()["engine"] == {"weights.py": "reference"}
        engine.save("weights.py", name, text)
    assert progress.load()["engine"] == {"weights.py": "own"}


def test_what_the_reference_does_not_have(work, tmp_path, monkeypatch):
    with monkeypatch.context() as without, pytest.raises(ValueError, match=r"no kernels/block.cu yet: it comes with"):
        without.setattr(engine, "REFERENCE", tmp_path / "nowhere")
        engine.use_reference("kernels/block")
    with pytest.raises(ValueError, match=r"no graph.py of your own is kept aside"):
        engine.use_own("graph")
    with pytest.raises(ValueError, match=r"did you mean graph.py"):
        engine.use_reference("grph")


# Importing


def test_a_missing_file_says_who_writes_it(work):
    with pytest.raises(ImportError) as raised:
        from engine import graph  # noqa: F401
    assert str(raised.value) == (
        "your engine has no graph.py yet: 01_topology/2_read_an_onnx_graph.ipynb writes it,"
        " beginning with the cell of layers."
        ' To go on with the reference\'s, run this in a new cell: use_reference("graph")'
    )
    with pytest.raises(
        ImportError, match=r"your engine has no plan.py yet: 05_network/1\w+.ipynb writes it, beginning"
    ):
        import engine.plan  # noqa: F401


def test_a_missing_part_says_who_writes_it(work, shell):
    cell(shell, "graph.py layers", FIRST)
    from engine import graph

    with pytest.raises(NotImplementedError, match=r"the part walk of graph.py is not written yet: 01_topology/2"):
        graph.walk(None, {})
    with pytest.raises(NotImplementedError, match=r"the part read of graph.py is not written yet: 01_topology/3"):
        graph.read("file.onnx")
    with pytest.raises(AttributeError, match=r"engine/graph.py has no .reed."):
        graph.reed("file.onnx")
    assert not hasattr(graph, "__path__")


def test_a_part_of_another_notebook_names_that_one(work, shell):
    cell(shell, "weights.py to_array", FIRST)
    from engine import weights

    with pytest.raises(NotImplementedError, match=r"^the part extract of weights.py .*: 02_weights/1_extract"):
        weights.extract()
    with pytest.raises(NotImplementedError, match=r"^the part fold of weights.py .*: 02_weights/2_fold"):
        weights.fold()


def test_an_answer_that_was_not_kept_is_missed_where_it_is_called(work, shell):
    cell(shell, "weights.py fold", "def fold():\n    return fold_conv_bn()\n\n\ndef other():\n    return unknown\n")
    from engine import weights

    with pytest.raises(NameError) as raised:
        weights.fold()
    assert engine.unwritten(raised.value).startswith(
        'fold_conv_bn is not in weights.py yet. Run keep("weights.py", fold_conv_bn) under “4 · All 52, in your engine”'
    )
    with pytest.raises(NameError) as raised:
        weights.other()
    assert engine.unwritten(raised.value) == ""
    assert engine.unwritten(NameError("fold_conv_bn", name="fold_conv_bn")) == ""


def test_in_a_source_the_engine_begins_as_the_reference(source, shell):
    from engine import graph, weights

    assert graph.read and weights.fold
    assert source not in Path(graph.__file__).parents and engine.REFERENCE not in Path(graph.__file__).parents
    for name, text in engine.reference_parts("graph.py").items():
        cell(shell, f"graph.py {name}", text)
    assert "(reference)" not in Path(graph.__file__).read_text()
    assert list(source.iterdir()) == []


def test_each_session_has_its_own_copy(source):
    first = engine.folder()
    assert engine.folder() == first
    engine._temporary = None
    assert engine.folder() != first


def test_the_extension_hooks_all_of_it_in(work, shell, capsys):
    engine.register(shell)
    assert shell.user_ns["use_reference"] is engine.use_reference
    shell.run_cell("%%engine graph.py layers\ndef one():\n    return 1\n")
    assert shell.run_cell("from engine import graph\nassert graph.one() == 1").success
    result = shell.run_cell("%%engine graph.py layers\ndef two():\n    return 2\nprint(undefined)\n")
    assert isinstance(result.error_in_exec, NameError)
    assert "not saved" in capsys.readouterr().out


def test_an_error_in_a_cell_is_shown_with_the_cells_line_alone(work, shell, capsys):
    from common.check import magic

    magic.load_ipython_extension(shell)
    for text, line in (("x = 1\n1 / 0\n", "----> 3 1 / 0"), ("x = 1\nx = (\n", "x = (")):
        assert not shell.run_cell(f"%%engine graph.py layers\n{text}").success
        told = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert line in told and "not saved, the cell raised an error" in told
        assert "magic" not in told and "engine.py" not in told, told


# The reference's text


MODULES = [file for file in FILES if file.endswith(".py") and engine.reference_parts(file)]
KERNELS = [file for file in FILES if file.endswith(".cu") and engine.reference_parts(file)]


@pytest.mark.parametrize("file", KERNELS)
def test_a_reference_kernel_is_written_as_a_learner_writes(file):
    text = (engine.REFERENCE / file).read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 95
    assert markup.regions(text, cuda=True), "nothing to write"
    assert len(markup.strip(text, cuda=True).splitlines()) <= 40
    assert FILES[file].exercise == f"engine_{Path(file).stem}" and find(FILES[file].exercise, REPOSITORY)
    plain = " ".join(text.replace("__launch_bounds__(256) ", "").split()).replace("( ", "(")
    assert OPERATORS[Path(file).stem].declaration in plain


@pytest.mark.parametrize("file", MODULES)
def test_the_reference_is_written_as_a_learner_writes(file):
    text = (engine.REFERENCE / file).read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 95
    assert markup.regions(text), "nothing to write"
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    device = {"common"} if file == "engine.py" else set()  # arrays on the device
    assert imported <= {"onnx", "numpy", "engine", *device, *sys.stdlib_module_names}
    for name, part in engine.parts(text).items():
        written = markup.strip(part.text).splitlines()
        assert len(written) <= 30, f"{name}: {len(written)} lines to read"


@pytest.mark.parametrize(("file", "name"), [("graph.py", "clip_bounds"), ("graph.py", "same_padding"),
                                            ("weights.py", "fold_conv_bn")])  # fmt: skip
def test_parts_that_are_exercises_hold_the_exercises_solution(file, name):
    source = find(name, REPOSITORY).source
    assert engine.reference_parts(file)[name].strip() == source[source.index(f"def {name}") :].strip()


def engine_cells() -> dict[tuple[str, str], str]:
    """The text of each notebook cell that saves a part, by file and part; answers that `keep` saves are ""."""
    cells = {}
    for path in REPOSITORY.glob("[0-9][0-9]_*/*.ipynb"):
        for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            first, _, rest = "".join(one["source"]).partition("\n")
            if one["cell_type"] == "code" and first.startswith("%%engine "):
                _, file, part = f"{first} ".split(" ", 2)
                cells[file, part.strip()] = rest
            elif kept := re.match(r'keep\("(\S+)", (.*)\)', first):
                cells |= {(kept[1], name): "" for name in kept[2].split(", ")}
    return cells


def test_the_notebooks_that_files_name_write_their_parts():
    """Each part in the notebook that FILES names; answers under the heading that FILES names."""
    named, kept = {}, {}
    for file, one in FILES.items():
        if file in MODULES:
            named |= {(file, part): one.notebook_of(part) for part in engine.reference_parts(file)}
        kept |= {(file, part): heading for part, heading in one.kept.items()}
    found, headings = {}, {}
    for path in REPOSITORY.glob("[0-9][0-9]_*/*.ipynb"):
        heading = ""
        for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(one["source"])
            if one["cell_type"] == "markdown":
                heading = (re.findall(r"^#+ (.*)$", text, re.M) or [heading])[-1]
            elif saved := re.match(r"%%engine (\S+) (\S+)\n", text):
                found[saved[1], saved[2]] = path.relative_to(REPOSITORY).as_posix()
            elif saved := re.match(r'keep\("(\S+)", (.*)\)', text):
                for part in saved[2].split(", "):
                    found[saved[1], part] = path.relative_to(REPOSITORY).as_posix()
                    headings[saved[1], part] = heading
    assert found == named
    assert headings == kept


def test_the_notebooks_write_the_reference_word_for_word():
    cells = engine_cells()
    ours = {(file, part): text.strip() for file in FILES for part, text in engine.reference_parts(file).items()}
    assert cells.keys() == ours.keys()
    for key, text in cells.items():
        assert not text or text.strip() == ours[key], key


@pytest.mark.parametrize("file", FILES)
def test_the_notebook_that_writes_a_file_exists(file):
    assert (REPOSITORY / FILES[file].notebook).exists()
    assert set(FILES[file].needs) <= set(FILES)
    assert all((REPOSITORY / notebook).exists() for notebook in FILES[file].elsewhere.values())
    assert FILES[file].notebook.startswith(f"{FILES[file].chapter:02}_")
