"""The suite "sections": what it makes of ncu's table. Counting itself needs a GPU and ncu."""

import io

import numpy as np
import pytest
from rich.console import Console

from common import cuda
from common.bench import sections as suite
from common.cuda.graphs import NoGpu
from common.report import results

HEAD = ("ID", "Kernel Name", *suite.METRICS.values(), *(suite._WAIT.format(name) for name in suite.WAITS))
ROW = {
    "Kernel Name": "gemm", suite.METRICS["us"]: "5,900,000", suite.METRICS["compute_throughput"]: "41.5",
    suite.METRICS["registers"]: "172", suite.METRICS["theoretical"]: "12.5", suite.METRICS["issue"]: "0.52",
    suite.METRICS["shared_loads"]: "402,653,184", suite._WAIT.format("mio_throttle"): "1.2345",
    suite._WAIT.format("drain"): "0.004",
}  # fmt: skip


def csv(*rows, head=HEAD):
    """ncu's output: the heads, the units, one line per launch."""
    lines = [head, [""] * len(head), *([row.get(name, "0") for name in head] for row in rows)]
    return "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)


def test_the_table_of_the_profiler_is_read():
    (one,) = suite.parse(csv(ROW))
    assert (one["kernel"], one["us"], one["registers"], one["shared_loads"]) == ("gemm", 5900, 172, 402_653_184)
    assert (one["compute_throughput"], one["theoretical"], one["issue"]) == (0.415, 0.125, 0.52)
    assert one["waits"] == {"mio_throttle": 1.234}
    with pytest.raises(ValueError, match=r"must have sm__throughput"):
        suite.parse(csv(ROW, head=tuple(name for name in HEAD if not name.startswith("sm__throughput"))))


def test_there_is_one_record_per_rung(tmp_path):
    rungs = sum(len(case.variants) for case in suite.CASES)
    made = suite.records(suite.parse(csv(*[ROW] * rungs)))
    assert len({(r["case"], r["implementation"]) for r in made}) == rungs
    results.save(tmp_path / "card", "one", {"card": "a card", "date": "2031-02-03"}, made)
    found = results.find(results.load(tmp_path / "card"), suite="sections", operator="gemm")
    assert [r["implementation"] for r in found] == [*suite.GEMM, *suite.GEMM_FP16]
    with pytest.raises(ValueError, match="rows must be as many as there are rungs"):
        suite.records(suite.parse(csv(ROW)))


def test_the_rungs_of_a_case_run():
    small = suite.Case("gemm", ((33, 40), (40, 31)), ("naive", "register_block"), 1, "33×31×40")
    found = {}
    for name, (step,), own in small.launches():
        assert step is own
        out = next(one for one in own.args if getattr(one, "shape", ()) == (33, 31))
        out[...] = np.nan
        own()
        found[name] = cuda.asnumpy(out)
    assert list(found) == ["naive", "register_block"]
    assert np.allclose(found["naive"], found["register_block"], atol=1e-4)


def test_of_several_launches_the_rungs_own_is_profiled():
    small = suite.Case("winograd", ((1, 4, 8, 8), (8, 4, 3, 3)), ("naive",), 1, "8×8 4>8", more=(None, 1))
    ((_, steps, own),) = small.launches()
    assert [step.name for step in steps] == ["winograd_weight/naive", "winograd/naive"] and own is steps[1]


def test_without_a_gpu_it_says_where_the_counts_are(monkeypatch):
    monkeypatch.setattr(cuda, "backend", lambda: "simulator")
    with pytest.raises(NoGpu, match="06_optimize/results"):
        suite.bench(suite.Options(), Console(file=io.StringIO()))
