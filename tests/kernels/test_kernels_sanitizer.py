"""Every rung of every operator under compute-sanitizer, where there is one."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import long

from common import cuda

PROGRAM = Path(__file__).parents[1] / "every_kernel.py"


@long  # each operator has its own tests
def test_every_kernel_is_launched():
    assert runpy.run_path(str(PROGRAM))["launch_all"]() > 0


# cuda-bindings asks the driver for every function there is, and memcheck reports each that an older driver has not
TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}


@pytest.mark.parametrize("tool", TOOLS)
def test_compute_sanitizer_finds_nothing(tool):
    if cuda.backend() != "gpu" or shutil.which("compute-sanitizer") is None:
        pytest.skip("needs a GPU and CUDA's compute-sanitizer on the PATH")
    command = ["compute-sanitizer", "--tool", tool, *TOOLS[tool], "--error-exitcode", "1", sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "launches on the gpu" in done.stdout
