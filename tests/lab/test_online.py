"""The cell that sets up Google Colab, tried out with Colab's shell and pip played; the addresses; Binder's files."""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib

import pytest
from packaging.requirements import Requirement
from tiers import long

from common.lab import colab, links, online
from common.report import generated, results

ROOT = results.course()
ADDRESS = online.repository()


def first(notebook):
    """(the source of the set-up cell, its place) of a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    (place,) = [i for i, cell in enumerate(cells) if online.is_set_up(cell)]
    return generated.source(cells[place]), place


def test_every_notebook_has_the_cell_behind_its_title():
    assert online.run(check=True), "python -m common generate writes it anew"
    for path in links.notebooks():
        source, place = first(path)
        assert place == 1 and source.endswith(f"colab.py {path.parent.name}"), path


def test_the_address_stands_in_one_place(tmp_path):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[project]\nurls = {Repository = "https://github.com/me/fork"}\n')
    assert online.colab("a/1.ipynb", tmp_path).endswith("/github/me/fork/blob/main/a/1.ipynb")
    assert online.binder("START.md", tmp_path).endswith("/gh/me/fork/main?urlpath=lab/tree/work/START.md")
    assert "https://github.com/me/fork" in online.cell(ROOT / "04_kernels" / "2_add.ipynb", tmp_path)
    for wrong in ('{Repository = "git@github.com:me/fork"}', "{}"):
        pyproject.write_text(f"[project]\nurls = {wrong}\n")
        with pytest.raises(ValueError, match="must be https://github"):
            online.repository(tmp_path)


def test_a_stale_cell_is_named_then_written_and_keeps_its_count(tmp_path, capsys):
    (tmp_path / "pyproject.toml").write_text('[project]\nurls = {Repository = "https://github.com/me/fork"}\n')
    path = tmp_path / "01_x" / "1_a.ipynb"
    path.parent.mkdir()
    title = {"cell_type": "markdown", "metadata": {}, "source": ["# 1. A"]}
    old = {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {"tags": [online.TAG]},
        "outputs": [],
        "source": ["x"],
    }
    path.write_text(generated.dumped({"cells": [old, title], "metadata": {}}))
    assert not online.run(check=True, root=tmp_path)
    assert "01_x/1_a.ipynb: the cell for Colab is stale" in capsys.readouterr().out
    assert online.run(check=False, root=tmp_path) and online.run(check=True, root=tmp_path)
    cells = json.loads(path.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"] and cells[1]["execution_count"] == 1


# ---- Colab


@pytest.mark.parametrize(
    ("gpu", "versions", "extra"),
    [
        (False, {"torch": "2.9.0+cpu"}, None),
        (True, {"torch": "2.9.0+cu126", "cupy-cuda12x": "13.6.0"}, "gpu"),
        (True, {"torch": "2.11.0+cu130", "cupy-cuda12x": "13.6.0"}, "gpu13"),
        (True, {"torch": "2.11.0", "cupy-cuda13x": "14.0.0"}, "gpu13"),
        (True, {}, "gpu"),
    ],
)
def test_the_packages_for_the_gpu_are_those_of_colabs_cuda(monkeypatch, gpu, versions, extra):
    monkeypatch.syspath_prepend(ROOT)
    import bootstrap

    def version(name):
        if name not in versions:
            raise colab.importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(bootstrap, "has_gpu", lambda: gpu)
    monkeypatch.setattr(colab.importlib.metadata, "version", version)
    assert colab.gpu_extra() == extra


@pytest.mark.parametrize("extra", [None, "gpu", "gpu13"])
def test_colab_keeps_its_own_page_kernel_and_cuda(extra):
    wanted = [Requirement(line) for line in colab.requirements(extra)]
    names = {one.name for one in wanted}
    assert {"numpy", "onnx", "torch", "nvidia-cuda-nvdisasm"} <= names and not {"jupyterlab", "ipykernel"} & names
    assert {name for name in names if name.startswith("cupy")} == (
        {f"cupy-cuda1{3 if extra[3:] else 2}x"} if extra else set()
    )
    assert "cuda-toolkit" not in names and not any(one.extras for one in wanted)


# A process like Colab's: its shell's class has this module, and pip writes down what it is asked for
PLAYED = """
import sys
from IPython.core.interactiveshell import InteractiveShell
colabs = sys.argv.pop() == "colab"
module = "google.colab._shell" if colabs else __name__
shell = type("Shell", (InteractiveShell,), {"__module__": module, "system": InteractiveShell.system_piped}).instance()
result = shell.run_cell(open(sys.argv[1]).read())
assert result.success
check = "import os; from common import cuda, kernels; os.getcwd(), check.__name__, cuda.__file__"
print(shell.run_cell(check).result if colabs else "nothing")
"""


@pytest.fixture
def play(tmp_path):
    """play(where): what the set-up cell of a notebook of chapter 04 prints, run in Colab's shell or in another."""
    course = tmp_path / "content" / "course"
    source, _ = first(ROOT / "04_kernels" / "2_add.ipynb")
    (tmp_path / "cell.py").write_text(source.replace("/content/course", str(course)))
    (tmp_path / "played.py").write_text(textwrap.dedent(PLAYED))
    (tmp_path / "modules" / "pip").mkdir(parents=True)
    (tmp_path / "modules" / "pip" / "__init__.py").touch()
    (tmp_path / "modules" / "pip" / "__main__.py").write_text(
        f"import sys\nopen({str(tmp_path / 'pip.txt')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
    )
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COURSE_GPU")}
    variables |= {
        "PYTHONPATH": str(tmp_path / "modules"), "IPYTHONDIR": str(tmp_path / "ipython"), "COURSE_GPU": "0",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf", "GIT_CONFIG_VALUE_0": ADDRESS,
    }  # fmt: skip

    def run(where):
        command = [sys.executable, "played.py", "cell.py", where]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_elsewhere_the_cell_does_nothing(play, tmp_path):
    assert play("elsewhere").split() == ["nothing"]
    assert not (tmp_path / "content").exists() and not (tmp_path / "pip.txt").exists()


@long  # clones the repository
def test_in_colab_the_cell_fetches_the_course_and_works_in_the_chapters_folder(play, tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone, which the cell could clone: a downloaded archive")
    (tmp_path / "content").mkdir()
    course = tmp_path / "content" / "course"
    for _ in range(2):  # again, after a restart of the kernel
        said = play("colab")
        assert "without a GPU" in said and "go on with the next cell" in said
        assert f"'{course / '04_kernels'}', 'common.check', '{course / 'common' / 'cuda'}" in said
    asked = (tmp_path / "pip.txt").read_text().splitlines()
    assert len(asked) == 2 and "onnx>=1.17" in asked[0] and "jupyterlab" not in asked[0]


# ---- Binder


def test_binders_files_ask_for_a_python_that_the_course_is_locked_for():
    binder = ROOT / ".binder"
    version = re.fullmatch(r"python-(3\.\d+)\n", (binder / "runtime.txt").read_text())[1]
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert Requirement(f"x{supported}").specifier.contains(f"{version}.0")
    assert (binder / "apt.txt").read_text() == "g++\n"  # for the simulator
    script = binder / "postBuild"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script]).returncode == 0
