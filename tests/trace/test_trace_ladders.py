"""The kernels of the course under trace: no first rung has findings, and all of them together take seconds."""

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import ALL, seldom

from common import cuda, kernels
from common.cuda.simulator import module


def every_kernel() -> Any:
    spec = importlib.util.spec_from_file_location("every_kernel", Path(__file__).parents[1] / "every_kernel.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@seldom(3)
@pytest.mark.skipif(cuda.backend() == "gpu", reason="launchers run on the simulator's kernels here")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_first_rungs_have_no_findings_and_trace_quickly(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Any] = []

    def call(kernel: Any, grid: tuple, block: tuple, args: Any, *, shared_mem: int = 0) -> None:
        with monkeypatch.context() as plain:
            plain.setattr(module.SimulatedKernel, "__call__", original)
            reports.append(cuda.trace(kernel, grid, block, args, shared_mem=shared_mem))

    original = module.SimulatedKernel.__call__
    monkeypatch.setattr(module.SimulatedKernel, "__call__", call)
    start = time.process_time()  # of all threads, without compilers
    for operator, calls in every_kernel().cases(dtype).items():
        for one in calls:
            one(kernels.variants(operator)[0])
    seconds = time.process_time() - start
    accesses = sum(e.counts.accesses for r in reports for e in r.lines)
    print(f"{len(reports)} launches, {accesses} accesses, {seconds:.1f} s")
    assert len(reports) >= len(kernels.OPERATORS)
    assert [f for r in reports for f in r.findings] == []
    assert seconds < 30 or not ALL
