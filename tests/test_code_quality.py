"""The whole repository is linted, formatted, typed, and imports in one direction only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import long, seldom

REPOSITORY = Path(__file__).resolve().parents[1]


def run(*command: str) -> None:
    """Run a tool of this environment over the repository; what it says is the failure's message."""
    path = shutil.which(command[0], path=str(Path(sys.executable).parent)) or shutil.which(command[0])
    assert path, f"{command[0]} is not installed: pip install -e .[test]"
    done = subprocess.run([path, *command[1:]], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing():
    run("ruff", "check")


def test_everything_is_formatted():
    run("ruff", "format", "--check")


@seldom(6)
def test_types():
    run("mypy")


def test_data_walks_one_way():
    run("lint-imports")


@pytest.mark.parametrize(("folder", "most"), [("common/optimize", 120), ("common", 150)])
def test_lines_of_cuda_fit_on_a_screen(folder, most):
    """ruff looks at Python; this at kernels and at the simulator."""
    texts = [path for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".h", ".cu", ".cpp")]
    long_lines = [
        f"{path.relative_to(REPOSITORY)}:{number}: {len(line)} characters"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > most
    ]
    assert texts and not long_lines, "\n".join(long_lines)


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["common", "common.__main__"])
def test_importing_is_quick_and_touches_no_gpu(module):
    heavy = ["cupy", "matplotlib", "numpy", "onnx", "onnxruntime", "sklearn", "torch"]
    loaded = in_a_fresh_process(f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])")
    assert loaded.strip() == "[]"


@long
def test_importing_common_takes_well_under_half_a_second():
    code = "import time; t = time.process_time(); import common; print(time.process_time() - t)"
    assert min(float(in_a_fresh_process(code)) for _ in range(3)) < 0.1


@long
def test_the_command_line_answers_quickly():
    def seconds() -> float:
        began = os.times()
        in_a_fresh_process("import sys; sys.argv[1:] = ['--version']; import common.__main__")
        ended = os.times()  # of the processor: others may use it, too
        return ended.children_user + ended.children_system - began.children_user - began.children_system

    assert min(seconds() for _ in range(3)) < 1
