"""The project of chapter 05 that is meant to be copied: it runs where the repository is not."""

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from tiers import seldom

import common

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "05_network" / "student_project"
PROGRAM = "run_my_cnn.py"


def lines_of_code(text: str) -> int:
    """Lines that are neither empty nor comments nor part of a docstring."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


@pytest.fixture
def copied(tmp_path):
    """The project's folder, copied, and the environment for what runs in it."""
    folder = shutil.copytree(PROJECT, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    assert ROOT not in folder.resolve().parents
    package = Path(common.__file__).parents[1]  # the repository, or where the package is installed
    return folder, os.environ | {
        "PYTHONPATH": os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    }


def run(folder, environment, program=PROGRAM):
    return subprocess.run([sys.executable, program], cwd=folder, env=environment, capture_output=True, text=True)


@seldom(6)
def test_it_runs_elsewhere_and_agrees_with_pytorch(copied):
    done = run(*copied)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    (error,) = re.findall(r"largest relative difference to PyTorch: (\S+) on the (?:gpu|simulator)", done.stdout)
    assert 0 < float(error) <= 1e-5
    steps = [line for line in done.stdout.splitlines() if re.match(r"\s*\d+: ", line)]
    assert len(steps) == 8
    activations = [line for line in steps if " HardSwish " in line]
    assert len(activations) == 2 and all("my_hardswish (yours)" in line for line in activations)
    assert {path.name for path in copied[0].iterdir()} >= {PROGRAM, "hardswish.cu", "README.md"}


@seldom(6)
def test_its_kernel_is_the_one_that_runs(copied):
    folder, environment = copied
    source = folder / "hardswish.cu"
    source.write_text(source.read_text().replace("/ 6.0f", "/ 5.0f"))
    done = run(folder, environment)
    assert done.returncode == 0, done.stderr
    (error,) = re.findall(r"PyTorch: (\S+) on", done.stdout)
    assert float(error) > 1e-2


@seldom(6)
def test_its_kernel_runs_in_nhwc_too(copied):
    folder, environment = copied
    program = folder / PROGRAM
    program.write_text(program.read_text().replace("operators=", 'layout="NHWC", operators='))
    done = run(folder, environment)
    assert done.returncode == 0, done.stderr
    assert "fp32, NHWC" in done.stdout
    (error,) = re.findall(r"PyTorch: (\S+) on", done.stdout)
    assert float(error) <= 1e-5


def test_it_is_at_most_thirty_lines():
    text = (PROJECT / PROGRAM).read_text()
    assert lines_of_code(text) <= 30
    imports = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules = {str(node.module).split(".")[0] for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert {"torch", "mobilenet_engine"} <= imports | modules


def test_how_lines_are_counted():
    text = '"""One\ntwo"""\n\nimport io  # three\n\n# four\n\ndef f(x):\n    "five"\n    return (\n        x\n    )\n'
    assert lines_of_code(text) == 5
