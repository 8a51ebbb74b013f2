"""What a trace costs: time an access, memory an element, nothing left behind."""

import resource

import numpy as np
import pytest
from leaks import growth
from tiers import ALL, long

from common import cuda
from common.bench import trace
from common.cuda.simulator import module


@long
def test_an_access_costs_less_than_60_ns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one core, of an H200's host or the like; a slower or a busy machine is given three times that."""
    monkeypatch.setattr(module, "worker_count", lambda: 1)
    kernel = trace.module().get_function("sgemm")
    A, B, C = (np.ones((128, 128), np.float32) for _ in range(3))
    cuda.trace(kernel, (1, 1), (32, 32), (A, B, C, 128))
    best = 1e9
    for _ in range(3):
        start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        report = cuda.trace(kernel, (4, 4), (32, 32), (A, B, C, 128))
        spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - start
        best = min(best, spent / sum(e.counts.accesses for e in report.lines))
    print(f"{best * 1e9:.1f} ns an access")
    assert best < 180e-9


def test_many_traces_leave_nothing_behind() -> None:
    kernel = trace.module().get_function("reduce_shuffle")
    arguments = [np.ones(5000, np.float32), np.zeros(20, np.float32), 5000]
    for _ in range(10):
        cuda.trace(kernel, (20,), (256,), arguments)

    def traces() -> None:
        for _ in range(50 if ALL else 12):
            cuda.trace(kernel, (20,), (256,), arguments)

    assert growth(traces, rounds=4) < (1 << 20 if ALL else 1 << 18)


def test_large_arrays_need_memory_only_where_they_are_touched() -> None:
    kernel = trace.module().get_function("copy")
    n = 10_000_000
    a, b = np.ones(n, np.float32), np.zeros(n, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = cuda.trace(kernel, (-(-n // 256),), (256,), (a, b, n), blocks=100)
    assert report.global_loads.sectors == 100 * 256 * 4 // 32
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB: the fenced copies, mostly
    assert b.all()
