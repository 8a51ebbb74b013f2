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


@pytest.fixture
def clock(monkeypatch):
    """The n-th call that is timed takes n µs."""
    timed = []

    def time(call, samples):
        call()
        timed.append(call)
        return Timing(float(len(timed)), 0.9 * len(timed), 1.1 * len(timed), samples, 1, "graph", "hot")

    monkeypatch.setattr(timing, "time", time)
    return timed


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_ours(model, clock, said, precision):
    records, right = operators.measure("ours", model, precision, "NHWC", 2, operators.Options(samples=7), said)
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
    records, right = operators.measure("ours", model, "fp32", "NCHW", 1, operators.Options(), said)
    assert not right and len(records) == len(clock)
    told = said.file.getvalue()
    assert told.count("wrong") == 1 and "project 3×3" in told and "an error of 1.0e-02" in told


def test_the_units_are_those_of_the_kernel_that_ran():
    assert operators.arithmetic("ours", "pointwise/split_k", "fp32") == ARITHMETIC["3xtf32"]
    assert operators.arithmetic("ours", "pointwise/split_k", "fp16") == ARITHMETIC["fp16"]
    assert operators.arithmetic("ours", "depthwise/rows", "fp32") == ARITHMETIC["fp32"]
    assert operators.arithmetic("ours", "conv2d/tensor_cores + conv2d/tensor_cores", "fp32") == ARITHMETIC["3xtf32"]
    assert operators.arithmetic("cudnn", "engine 0/1", "tf32") == ARITHMETIC["tf32"]


def test_ours_has_one_layout_and_no_tf32():
    of_ours = list(
        operators.Options(backends=("ours",), batches=(1,), precisions=("fp32", "tf32", "fp16")).combinations()
    )
    assert of_ours == [("ours", 1, "fp32", "NHWC"), ("ours", 1, "fp16", "NHWC")]
    named = operators.Options(backends=("ours", "cudnn"), batches=(4,), layouts=("NCHW",), precisions=("tf32",))
    assert list(named.combinations()) == [("cudnn", 4, "tf32", "NCHW")]


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
