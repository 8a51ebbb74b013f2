"""Counts that can be worked out with pencil and paper, as exact integers, with every compiler that may trace."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import theory
from tiers import long


@pytest.mark.parametrize("case", theory.CASES, ids=lambda case: case.name)
def test_counts_are_those_of_theory(case: theory.Case) -> None:
    report = theory.run(case)
    assert theory.counts(report) == case.expected
    assert report.findings == ()


@long  # 17 s to compile every kernel again; test_cuda_compilers.py tries this clang in `make test`, too
def test_clang_gives_the_same_counts_and_lines() -> None:
    """In a process of its own, in which g++ is not to be found: what `pip install ziglang` brings is taken."""
    pytest.importorskip("ziglang")
    environment = {**os.environ, "CXX": "/nowhere/c++", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(Path(theory.__file__))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    compiler, _, rest = done.stdout.partition("\n")
    assert "clang" in compiler
    ours = [f"{case.name}: {theory.by_line(theory.run(case))}" for case in theory.CASES]
    assert rest.splitlines() == ours


def test_outputs_are_those_of_a_plain_launch() -> None:
    case = next(c for c in theory.CASES if c.name == "transpose through 33 columns, 37")
    kernel, arguments = theory.prepared(case)
    kernel(case.grid, case.block, arguments, shared_mem=case.shared)
    plain = [np.copy(a) for a in arguments if isinstance(a, np.ndarray)]
    traced = [a for a in theory.run(case, keep=True) if isinstance(a, np.ndarray)]
    for a, b in zip(plain, traced, strict=True):
        np.testing.assert_array_equal(a, b)
