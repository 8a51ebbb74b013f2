"""The suite "kernels" in int8: each step, addition and block has the right arguments; only exact results are timed."""

import io

import numpy as np
import pytest
from bench_models import small
from rich.console import Console

from common import cuda, kernels
from common.bench import kernels as suite
from common.bench import problems_int8
from common.bench.problems import Problem
from common.measure.roofline import ARITHMETIC, INT8_ON_ALUS, Work
from common.network.steps import fuse

BATCH = 2


@pytest.fixture(scope="module")
def found():
    """The problems of a small network by kind, one of each."""
    model = small(33)
    steps = fuse(model.graph.with_batch(BATCH))
    options = suite.Options(precisions=("int8",), batches=(BATCH,))
    problems = list(suite.all_problems(model, BATCH, "int8", options))
    assert sum(p.count for p in problems if p.kind not in ("add", "block")) == len(steps)
    return {problem.kind: problem for problem in reversed(problems)}


def test_each_kind_is_there(found):
    assert set(found) == {"stem", "expand", "depthwise", "project", "head", "pool", "linear", "add", "block"}
    assert all(problem.work.bytes > 0 and problem.precision == "int8" for problem in found.values())


@pytest.mark.parametrize("kind", ["stem", "expand", "depthwise", "project", "head", "pool", "linear", "add", "block"])
def test_the_right_result_is_zero_away_and_every_other_is_wrong(found, kind):
    problem = found[kind]
    (setup,) = problem.setups()
    options = suite.Options(precisions=("int8",))
    made = list(suite.implementations(problem, setup, options))
    names = [one.name for one in made]
    operator, card = problem.operators[0], cuda.compute_capability()
    assert names == (
        ["fused", "separate"] if kind == "block"
        else [rung for rung in kernels.variants(operator) if kernels.requires(operator, rung) <= card]
    )  # fmt: skip
    for one in made[:1] if kind != "block" else made:
        setup.poison()
        assert setup.error() > 0
        one.launch()
        assert setup.error() == 0 <= suite.allowed("int8", setup.k)
        on_tensor_cores = one.name in ("tensor_cores", "streaming", "persistent", "fused", "separate")
        assert one.arithmetic == (ARITHMETIC["int8"] if on_tensor_cores else INT8_ON_ALUS)
    out = cuda.asnumpy(setup.given["out"])
    assert (
        len(np.unique(out)) > min(20, out.size / 3) and (np.abs(out.astype(int)) == 128).mean() < 0.1
    )  # neither constant nor saturated
    setup.given["out"][0, 0, 0, 0] ^= 1
    assert setup.error() > suite.allowed("int8", setup.k)


def test_int8_is_measured_only_if_asked_for():
    assert "int8" not in suite.Options().precisions
    assert suite.Options(precisions=("int8",)).precisions == ("int8",)


def test_a_wrong_rung_is_told_and_not_timed(found, monkeypatch):
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(suite, "timed", lambda ones, samples: pytest.fail("timed") if ones else {})
    monkeypatch.setattr(suite, "launch_of", lambda operator, variant, given: lambda: None)
    records, right = suite.measure(found["add"], suite.Options(precisions=("int8",)), console)
    assert records == [] and not right and "is wrong, not timed" in console.file.getvalue()


def test_a_rung_that_leaves_a_shape_to_another_is_not_timed_under_its_name(monkeypatch):
    """`persistent` takes outputs in multiples of 16, and not 24."""
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    options = suite.Options(operators=("pointwise_int8",), precisions=("int8",), layouts=("NHWC",))
    names = {}
    for outputs in (24, 32):
        made = problems_int8.convolution(1, (outputs, 96, 1, 1))
        given = {"x": problems_int8.drawn(0, (1, 96, 8, 8)), **made, "zero_point": 3, "bounds": (-128, 127)}
        given |= {"residual": None, "residual_scales": None}
        setup = problems_int8._setup(given, np.zeros((1, outputs, 8, 8), np.int8), 96)
        problem = Problem("project", "", 1, 1, "int8", Work(1, 1), ("pointwise_int8",), lambda: iter(()))
        names[outputs] = [one.name for one in suite.implementations(problem, setup, options)]
    assert names[32] == [*names[24], "persistent"] and "tensor_cores" in names[24]
