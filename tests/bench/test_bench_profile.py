"""The suite "profile": what it makes of ncu's table. Counting itself needs a GPU and ncu."""

import io

import pytest
from rich.console import Console

from common.bench import profile
from common.cuda.graphs import NoGpu
from common.report import results

HEAD = ("ID", "Kernel Name", *profile.METRICS.values(), *(profile._WAIT.format(name) for name in profile.WAITS))
UNITS = {
    "gpu__time_duration.sum": "ns", profile.METRICS["warps"]: "%", profile.METRICS["tensor"]: "%",
    profile.METRICS["shared"]: "%", profile.METRICS["l2_bytes"]: "Kbyte", profile.METRICS["dram_bytes"]: "byte",
}  # fmt: skip


def csv(*rows, head=HEAD):
    """ncu's output: what the program said, the heads, the units, a line a launch."""
    lines = ["==PROF== Connected", head, [UNITS.get(name, "") for name in head]]
    lines += [[row.get(name, "0") for name in head] for row in rows]
    return "\n".join(line if isinstance(line, str) else ",".join(f'"{cell}"' for cell in line) for line in lines)


FIRST = {
    "Kernel Name": "inverted_residual", "gpu__time_duration.sum": "156,160", profile.METRICS["warps"]: "24.1",
    profile.METRICS["issue"]: "0.42", profile.METRICS["conflicts"]: "1,500", profile.METRICS["wavefronts"]: "10,000",
    profile.METRICS["l2_bytes"]: "346.4", profile.METRICS["registers"]: "128", profile._WAIT.format("wait"): "2.31",
    profile._WAIT.format("barrier"): "0.04",
}  # fmt: skip


def test_the_table_of_the_profiler_is_read():
    one, two = profile.parse(csv(FIRST, {"Kernel Name": "gemm"}))
    assert (one["kernel"], one["us"], one["registers"], one["l2_bytes"]) == ("inverted_residual", 156.16, 128, 346_400)
    assert (one["warps"], one["issue"], one["conflicts"]) == (0.241, 0.42, 0.15)
    assert one["waits"] == {"wait": 2.31}  # less than a tenth of a cycle is left out
    assert two["kernel"] == "gemm" and two["conflicts"] == 0 and two["waits"] == {}


def test_a_metric_that_is_missing_is_named():
    with pytest.raises(ValueError, match=r"ncu's table must have dram__bytes\.sum$"):
        profile.parse(csv(FIRST, head=tuple(name for name in HEAD if name != "dram__bytes.sum")))


def test_records_are_what_the_results_file_takes(tmp_path):
    made = profile.records(profile.parse(csv(FIRST, FIRST)), ["a block", "a block"], "fp16", 256)
    assert [r["case"] for r in made] == ["01 a block", "02 a block"]
    path, here = tmp_path / "card", {"card": "a card", "date": "2026-11-22"}
    results.save(path, "one", here, made)
    shorter = profile.records(profile.parse(csv(FIRST)), ["all of it"], "fp16", 256)
    results.save(path, "two", here, shorter, profile.superseded(shorter))
    assert [r["case"] for r in results.find(results.load(path), suite="profile")] == ["01 all of it"]
    with pytest.raises(ValueError, match="rows must be as many as the network has launches, 2, got 1"):
        profile.records(profile.parse(csv(FIRST)), ["a block", "another"], "fp16", 256)


def test_the_table_shows_the_longest_waits_first():
    text = io.StringIO()
    row = FIRST | {profile._WAIT.format("barrier"): "3.5", profile._WAIT.format("membar"): "0.5"}
    Console(file=text, width=200).print(profile.table(profile.records(profile.parse(csv(row)), ["x"], "fp16", 1)))
    assert "batch 1, fp16" in text.getvalue() and "barrier 3.5, wait 2.3, membar 0.5" in text.getvalue()


def test_without_a_gpu_it_says_where_the_counts_are(monkeypatch):
    from common import cuda

    monkeypatch.setattr(cuda, "backend", lambda: "simulator")
    with pytest.raises(NoGpu, match="06_optimize/results"):
        profile.bench(profile.Options(), Console(file=io.StringIO()))
    with pytest.raises(ValueError, match="precision must be one of fp32, fp16, got 'tf32'"):
        profile.Options(precisions=("tf32",))


def test_what_was_recorded_names_every_kernel():
    content = results.load("NVIDIA H200")
    profiled = {(r["batch"], r["precision"]) for r in results.find(content, suite="profile")}
    assert profiled
    for batch, precision in profiled:
        rows = results.find(content, suite="profile", batch=batch, precision=precision)
        assert [r["order"] for r in rows] == list(range(1, len(rows) + 1))
        assert all(0 < r["issue"] <= 1 and 0 <= r["shared"] <= 1 and r["waits"] for r in rows)
