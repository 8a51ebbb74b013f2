"""The suite "operators": every different step is checked before it is timed, on cuDNN and on ours."""

import io

import pytest
from bench_models import small
from rich.console import Console

from common.bench import operators
from common.measure import timing
from common.measure.roofline import ARITHMETIC, FP16_ON_FMA
from common.measure.timing import Timing
from common.network.program import Program
from common.report import results


@pytest.fixture(scope="module")
def model():
    return small()


@pytest.fixture
def said():
    return Console(file=io.StringIO(), width=200, highlight=False)


class Turns:
    """A Comparison in which the n-th benchmark ever timed takes n µs."""

    def __init__(self, names, before, samples):
        self.us, self.samples = {name: before + i for i, name in enumerate(names, 1)}, samples

    def __getitem__(self, name):
        us = float(self.us[name])
        return Timing(us, 0.9 * us, 1.1 * us, self.samples, 1, "graph", "hot")

    def ratio(self, a, b):
        median = self.us[a] / self.us[b]
        return timing.Ratio(median, 0.99 * median, 1.01 * median)


@pytest.fixture
def clock(monkeypatch):
    """The n-th call that is timed takes n µs."""
    timed = []

    def compare(benchmarks, samples):
        for benchmark in benchmarks.values():
            benchmark.calls[0]()
        before = len(timed)
        timed.extend(benchmarks)
        return Turns(list(benchmarks), before, samples)

    monkeypatch.setattr(timing, "compare", compare)
    return timed


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_ours(model, clock, said, precision):
    records, right = operators.measure([("ours", "NHWC")], model, precision, 2, operators.Options(samples=7), said)
    assert right and len(records) == len(clock) > 15
    assert sum(r["count"] for r in records) == 54
    for r in records:
        assert (r["implementation"], r["layout"], r["samples"], r["batch"]) == ("ours", "NHWC", 7, 2)
        assert r["error"] <= (2e-3 if precision == "fp16" else 4e-5) and r["plan"].count("/") == 1
        assert results._complaints(r) == []
    depthwise = next(r for r in records if r["kind"] == "depthwise")
    assert depthwise["arithmetic"] == (FP16_ON_FMA if precision == "fp16" else ARITHMETIC["fp32"])


def test_what_is_wrong_is_told_and_not_timed(model, clock, said, monkeypatch):
    original = Program.launch_step

    def off(self, index):
        original(self, index)
        if index == 20:
            self.buffers[self.steps[index].output][...] *= 1.01

    monkeypatch.setattr(Program, "launch_step", off)
    records, right = operators.measure([("ours", "NCHW")], model, "fp32", 1, operators.Options(), said)
    assert not right and len(records) == len(clock)
    told = said.file.getvalue()
    assert told.count("wrong") == 1 and "project 3×3" in told and "an error of 1.0e-02" in told


def test_the_units_are_those_of_the_kernel_that_ran():
    assert operators.arithmetic("ours", "pointwise/split_k", "fp32") == ARITHMETIC["3xtf32"]
    assert operators.arithmetic("ours", "pointwise/split_k", "fp16") == ARITHMETIC["fp16"]
    assert operators.arithmetic("ours", "depthwise/rows", "fp32") == ARITHMETIC["fp32"]
    assert operators.arithmetic("ours", "conv2d/tensor_cores + conv2d/tensor_cores", "fp32") == ARITHMETIC["3xtf32"]
    assert operators.arithmetic("cudnn", "engine 0/1", "tf32") == ARITHMETIC["tf32"]


def test_both_sides_of_a_step_are_timed_in_turn(model, clock, said, monkeypatch):
    """Here two layouts of ours play the two sides; cuDNN needs a GPU."""
    original = operators.network_of
    monkeypatch.setattr(operators, "network_of", lambda name, *rest: original("ours", *rest))
    sides = [("cudnn", "NCHW"), ("cudnn", "NHWC"), ("ours", "NHWC")]
    records, right = operators.measure(sides, model, "fp32", 1, operators.Options(samples=7), said)
    assert right and clock[:3] == ["cudnn NCHW", "cudnn NHWC", "ours NHWC"] and len(records) == len(clock)
    first, second, ours = records[:3]
    assert first["case"] == second["case"] == ours["case"]
    assert ours["ratios"] == {"cudnn": {"to": "cudnn NCHW", "median": 3.0, "low": 2.97, "high": 3.03}}
    assert first["ratios"]["ours"]["to"] == "ours NHWC" and set(second["ratios"]) == {"ours"}
    assert not any(results._complaints(r) for r in records)


def test_another_arithmetic_of_a_step_is_replaced():
    """Else the faster of two programs' times would count."""
    now = {"suite": "operators", "case": "head 7×7 320>1280", "implementation": "ours", "precision": "fp32", "batch": 1}
    now |= {"layout": "NHWC", "arithmetic": ARITHMETIC["3xfp16"]}
    old = operators.superseded([now])
    assert old(now | {"arithmetic": ARITHMETIC["3xtf32"]})
    assert not old(now | {"layout": "NCHW"}) and not old(now | {"suite": "kernels"})


def test_ours_has_one_layout_and_no_tf32():
    precisions = ("fp32", "tf32", "fp16")
    of_ours = operators.Options(backends=("ours",), batches=(1,), precisions=precisions).groups()
    assert list(of_ours) == [(1, "fp32", [("ours", "NHWC")]), (1, "fp16", [("ours", "NHWC")])]
    both = operators.Options(batches=(4,), precisions=precisions).groups()
    assert [sides for *_, sides in both] == [
        [("cudnn", "NCHW"), ("cudnn", "NHWC"), ("ours", "NHWC")],
        [("cudnn", "NHWC")],
        [("cudnn", "NHWC"), ("ours", "NHWC")],
    ]
    named = operators.Options(backends=("ours", "cudnn"), batches=(4,), layouts=("NCHW",), precisions=("tf32",))
    assert list(named.groups()) == [(4, "tf32", [("cudnn", "NCHW")])]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backends": ("xla",)}, "backend must be one of cudnn, ours, got 'xla'"),
        ({"layouts": ("nhwc",)}, "layout must be one of NCHW, NHWC, got 'nhwc'"),
        ({"precisions": ("int8",)}, "precision must be one of fp32, tf32, fp16, got 'int8'"),
        ({"samples": 5}, "samples must be at least 6, got 5"),
    ],
)
def test_what_cannot_be_asked_for(options, message):
    with pytest.raises(ValueError, match=message):
        operators.Options(**options)
