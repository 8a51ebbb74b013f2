"""The suite "late": every candidate of a layer is right before it is timed, and records say which tile it was."""

import contextlib
import io

import pytest
from rich.console import Console
from tiers import seldom

from common import cuda, cudnn, kernels
from common.bench import late as suite
from common.bench import operators
from common.bench.late import LAYERS, Layer, Options
from common.cuda.graphs import NoGpu
from common.measure.roofline import ARITHMETIC
from common.measure.timing import Timing
from common.report import results

SMALL = Layer("project", 3, 72, 40, "relu6", residual=True)
LINEAR = Layer("linear", 1, 136, 24)
HEAD = Layer("head", 3, 24, 40, "relu6", pool=True)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200, highlight=False)


@pytest.fixture
def faked(monkeypatch):
    """Rungs run on the simulator, in a library's place too; times are the implementations' places."""
    if cuda.backend() == "gpu":
        return

    def conv2d(x, weight, bias, *, tune, **given):
        return kernels.pointwise(x, weight, bias, **given)

    monkeypatch.setattr(cudnn, "conv2d", conv2d)
    monkeypatch.setattr(cudnn, "gemm", kernels.gemm)
    monkeypatch.setattr(kernels, "requires", lambda operator, variant: 80)
    monkeypatch.setattr(suite, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(
        suite, "timed", lambda ones, samples: {one: Timing(i + 1, i + 1, i + 1, 10, 20, "graph", "hot") for i, one in
                                               enumerate(ones)}
    )  # fmt: skip


@pytest.mark.parametrize("layer", [SMALL, LINEAR], ids=lambda layer: layer.case)
def test_all_of_fp32_that_is_timed_is_right(faked, console, layer):
    records, right = suite.measure(layer, 4, "fp32", Options(tiles=3), console)
    assert right, console.file.getvalue()
    how = {r["implementation"]: r["arithmetic"] for r in records}
    assert len(how) == len(records) == 4 + 3 + {SMALL: 1, LINEAR: 3}[layer]
    assert how["tensor_cores"] == ARITHMETIC["3xtf32"] and how["cudnn"] == ARITHMETIC["fp32"]
    assert {how[name] for name in how if "halves" in name} == {ARITHMETIC["3xfp16"]}
    assert sum(name.startswith("persistent_halves ") for name in how) == 3


@seldom(6)
@pytest.mark.parametrize("layer", [SMALL, LINEAR, HEAD], ids=lambda layer: layer.case)
def test_all_that_is_timed_is_right(faked, console, layer):
    records, right = suite.measure(layer, 4, "fp16", Options(tiles=3), console)
    assert right, console.file.getvalue()
    names = [r["implementation"] for r in records]
    assert len(set(names)) == len(names) == 3 + 3 + {SMALL: 1, LINEAR: 3, HEAD: 5}[layer]
    assert sum(name.startswith("persistent 64×") for name in names) >= 1 and "warpgroups" in names
    assert sum(name.startswith("pooled by persistent 64×") for name in names) == (3 if layer.pool else 0)
    assert ("cublas" in names) == ("gemm" in names) == (layer.side == 1)
    for r in records:
        assert set(results.SUITES["late"]) <= set(r) and r["error"] < 2e-3


def test_a_wrong_tile_is_told_and_not_timed(faked, console, monkeypatch):
    monkeypatch.setattr("common.bench.kernels.allowed", lambda precision, k: 0.0)
    records, right = suite.measure(SMALL, 2, "fp16", Options(tiles=1), console)
    assert not right and records == []
    assert "project 3×3 72>40 +residual, batch 2, fp16: persistent 64×" in console.file.getvalue()


def test_the_layers_are_those_of_the_network():
    from common import topology
    from common.network.steps import fuse

    steps = {one.case for one in operators.operators(list(fuse(topology.build().with_batch(256))))}
    assert {layer.case for layer in LAYERS if not layer.pool} <= steps


def test_a_tile_in_words():
    tile = {"BM": 192, "BN": 160, "TEAMS": 1, "STAGES": 4, "KEEP": 0}
    assert suite.named("persistent", tile) == "persistent 192×160, 1 team, 4 stages"
    kept = tile | {"BM": 64, "TEAMS": 2, "KEEP": 1}
    assert suite.named("persistent", kept) == "persistent 64×160, 2 teams, 4 stages, weights stay"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cases": ("stem",)}, "case must be one of expand 14×14 96>576"),
        ({"tiles": 0}, "tiles must be at least 1, got 0"),
    ],
)
def test_wrong_options(given, told):
    with pytest.raises(ValueError, match=told):
        Options(**given)


def test_only_the_asked_layers_are_measured_and_shown(faked, console, monkeypatch):
    monkeypatch.setattr(suite, "LAYERS", (SMALL, LINEAR))
    options = Options(tiles=1, batches=(2,))
    object.__setattr__(options, "cases", (LINEAR.case,))
    ((records, right),) = suite.run(options, console)
    assert right and {r["case"] for r in records} == {"linear 136>24"}
    assert console.file.getvalue().startswith("linear 136>24, batch 2, fp16")


def test_nothing_is_timed_on_the_simulator(monkeypatch, console):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    with pytest.raises(NoGpu):
        next(iter(suite.run(Options(), console)))


def test_a_pool_stores_means_alone():
    plain, pooled = (
        suite.work_of(Layer("head", 7, 320, 1280, "relu6", pool=pool), 256, "fp16") for pool in (False, True)
    )
    assert plain.bytes - pooled.bytes == 2 * 256 * 1280 * 48
    assert pooled.flops - plain.flops == 256 * 1280 * 49
