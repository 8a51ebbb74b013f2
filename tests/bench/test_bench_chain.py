"""The suites "chain" and tuning: every rung right, records that say all that they must, and what is printed."""

import contextlib
import dataclasses
import io
import json
import os

import numpy as np
import pytest
from bench_models import small
from rich.console import Console
from tiers import long

from common import cuda, topology, weights
from common.bench import chain, network, tuning
from common.bench.network import Configuration, Reference, composed, configurations
from common.bench.peers import Built
from common.cuda import graphs
from common.cuda.graphs import NoGpu
from common.measure import environment, timing
from common.network import Network
from common.optimize import search, tiles
from common.report import plots, results, tables

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")


@pytest.fixture
def said():
    return Console(file=io.StringIO(), width=220, highlight=False)


def text(console):
    return console.file.getvalue()


@pytest.fixture(scope="module")
def model():
    return small(32)


@pytest.fixture
def clock(monkeypatch):
    """Rungs are timed on the CPU, by the clock."""
    build = chain.build

    def built(rung, precision, model, x):
        made, plan = build(rung, precision, model, x)
        return dataclasses.replace(made, launches=("host",), wait=lambda: None), plan

    monkeypatch.setattr(chain, "build", built)
    monkeypatch.setattr(graphs, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(timing, "WARM_UP_US", 0.0)
    monkeypatch.setattr(timing, "SAMPLE_US", {"graph": 1.0, "eager": 1.0, "host": 1.0})
    return built


def without(*names):
    return [rung for rung in chain.rungs() if rung.name not in names]


@pytest.fixture(autouse=True)
def every_block_is_worth_it(monkeypatch):
    """Without a search a rule says what is; here all that can be fused is."""
    from common.optimize import cost

    monkeypatch.setattr(cost, "worth_it", lambda *_: True)


NAMES = ["naive", "best rungs NCHW", "NHWC", "programmatic", "fused blocks", "persistent"]


def test_rungs_are_in_the_order_of_the_lesson():
    assert [rung.name for rung in chain.rungs()] == NAMES


def test_every_rung_is_launched_from_a_graph_and_one_from_python_as_well(model):
    x = np.zeros((1, 3, 32, 32), np.float32)
    for rung in without("persistent", "fused blocks", "programmatic"):
        built, _ = chain.build(rung, "fp32", model, x)
        assert built.launches == (("graph", "eager") if rung.name == "NHWC" else ("graph",))


def chain_row(name, launch):
    found = network.Check(1e-6, 4, 4, 2e-6)
    made = Built([lambda: None], (launch,), lambda x: None, lambda: [], network.OUR_ARITHMETIC["fp32"])
    return network.Row(Configuration(name, "fp32", "NHWC"), launch, made, found)


def test_the_program_from_python_stands_beside_the_chain(model, said):
    rows = [
        chain_row("naive", "graph"), chain_row("NHWC", "graph"), chain_row("NHWC", "eager"),
        chain_row("fused blocks", "graph"),
    ]  # fmt: skip
    times = {row.name: [us] * 6 for row, us in zip(rows, (400.0, 100.0, 300.0, 50.0), strict=True)}
    timings = {row.name: timing.Timing.of(times[row.name], 1, row.launch) for row in rows}
    comparison = timing.Comparison(timings, times)
    plan = Network(model.onnx, layout="NHWC").plan((1, 3, 32, 32))
    plans = {row.configuration.implementation: plan for row in rows}
    records = [chain._record(row, plans, comparison, model, 1) for row in rows]
    assert [(r["case"].split(", ")[1], r["launch"], r.get("rung")) for r in records] == [
        ("chain", "graph", 1), ("chain", "graph", 3), ("from Python", "eager", None), ("chain", "graph", 5)
    ]  # fmt: skip
    assert all(r["error_float64"] == 2e-6 for r in records)
    chain._show(rows, comparison, records, 1, "fp32", said)
    cells = [line.split() for line in text(said).splitlines() if " graph " in line or " eager " in line]
    assert [line[-2:] for line in cells] == [["1.00", "1.00"], ["4.00", "4.00"], cells[2][-2:], ["2.00", "8.00"]]
    assert cells[2][-1] == "1.0e-06"  # no ratios


def test_records_from_python_and_of_rungs_that_are_gone_are_replaced():
    base = {"case": "n, chain", "precision": "fp32", "batch": 1, "launch": "graph", "implementation": "naive"}
    old = chain.superseded([base])
    assert old({**base, "launch": "eager"}) and old({**base, "implementation": "graph"})
    assert old({**base, "arithmetic": "another"}) and not old({**base, "suite": "operators"})
    assert not old({**base, "implementation": "fused blocks"})
    for other in ({"batch": 32}, {"precision": "fp16"}, {"case": "n, from Python"}):
        assert not old({**base, "launch": "eager", **other})
    assert not old({"suite": "plans", "case": "n, chain"})  # of other suites, records lack keys


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        ([("chain", "NHWC", "eager", 401.0), ("chain", "graph", "graph", 118.0)], {"eager": 401.0, "graph": 118.0}),
        (
            [
                ("from Python", "NHWC", "eager", 300.0),
                ("chain", "NHWC", "graph", 110.0),
                ("chain", "naive", "graph", 9.0),
            ],
            {"eager": 300.0, "graph": 110.0},
        ),
    ],
    ids=["once", "now"],
)
def test_a_kernel_per_step_is_found_in_old_records_and_new(recorded, found):
    records = [
        {
            "suite": "network", "case": f"{tables.NETWORK}, {case}", "implementation": name, "launch": launch,
            "median_us": us, "precision": "fp16", "batch": 1,
        }
        for case, name, launch, us in recorded
    ]  # fmt: skip
    content = results.Results(records=records)
    for launch, us in found.items():
        assert tables.kernel_per_step(content, launch, "fp16", 1)["median_us"] == us
    with pytest.raises(ValueError, match="no chain of fp32 at batch 1 launched from Python"):
        tables.kernel_per_step(content, "eager", "fp32", 1)


@long
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_records_of_every_rung(clock, model, said, tmp_path, precision):
    chosen = without("persistent")
    records, right = chain.measure(
        chosen, model, Reference(model, 4), 2, precision, chain.Options(samples=6), said
    )  # fmt: skip
    assert right
    names = [r["implementation"] for r in records]
    if cuda.compute_capability() < 90:
        assert names == [name for name in NAMES if name not in ("programmatic", "persistent")]
        assert "programmatic: not timed: programmatic launches: needs sm_90" in text(said)
    assert all(r["case"].endswith(", chain") and r["suite"] == "network" for r in records)
    by_name = {r["implementation"]: r for r in records}
    assert by_name["naive"]["layout"] == "NCHW" and by_name["fused blocks"]["layout"] == "NHWC"
    assert by_name["fused blocks"]["steps"] == 19 and by_name["naive"]["steps"] == 54
    assert by_name["fused blocks"]["bytes"] < by_name["NHWC"]["bytes"] / 1.4
    assert len({r["flops"] for r in records}) == 1 and by_name["naive"]["rung"] == 1
    assert "× the first" in text(said)
    path = tmp_path / "card"
    results.save(path, "run", {"card": "x", "date": "2031-02-03"}, records)
    assert len(results.load(path).records) == len(records)


def test_a_wrong_rung_is_told_and_not_timed(clock, model, said, monkeypatch):
    def spoiled(rung, precision, model, x):
        built, plan = clock(rung, precision, model, x)
        if rung.name == "NHWC":
            right = built.results
            built = dataclasses.replace(built, results=lambda: [logits * 1.1 for logits in right()])
        return built, plan

    monkeypatch.setattr(chain, "build", spoiled)
    chosen = [rung for rung in chain.rungs() if rung.name in ("NHWC", "best rungs NCHW")]
    records, right = chain.measure(chosen, model, Reference(model, 2), 1, "fp32", chain.Options(samples=6), said)
    assert not right and [(r["implementation"], r["rung"]) for r in records] == [("best rungs NCHW", 2)]
    assert "wrong" in text(said)


def test_what_cannot_be_measured(said):
    for options, message in (
        ({"rungs": ("fastest",)}, "backend must be one of naive"),
        ({"precisions": ("tf32",)}, "precision must be one of fp32, fp16"),
        ({"samples": 2}, "samples must be at least 6"),
    ):
        with pytest.raises(ValueError, match=message):
            chain.Options(**options)
    if cuda.backend() != "gpu":
        with pytest.raises(NoGpu):
            chain.bench(chain.Options(), said)


# The plot


PEAKS = {"copy": 4e12, "fma-fp32": 6e13, "tensor-tf32": 4e14, "tensor-fp16": 8e14}


def chain_records(batches=(1, 32)):
    made = []
    for batch in batches:
        for precision, arithmetic in ((one, network.OUR_ARITHMETIC[one]) for one in chain.PRECISIONS):
            for number, name in enumerate(NAMES, 1):
                made.append(
                    {
                        "batch": batch, "precision": precision, "implementation": name, "rung": number,
                        "median_us": 4000.0 * batch / 3**number, "arithmetic": arithmetic,
                        "bytes": 10_000_000 * batch if number < 5 else 4_000_000 * batch, "flops": 10**9 * batch,
                    }
                )  # fmt: skip
    return made


def test_the_chain_as_a_plot():
    peaks = plots.Peaks(PEAKS["copy"], PEAKS["fma-fp32"], PEAKS["tensor-tf32"], PEAKS["tensor-fp16"])
    figure = plots.chain(chain_records(), peaks)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 4
    first = panels[0]
    assert [label.get_text() for label in first.get_yticklabels()] == NAMES
    assert first.get_xscale() == "log" and "batch 1, fp16" in first.get_title("left")
    roof = 4_000_000 / PEAKS["copy"] * 1e6  # of the rung that moves least
    texts = [t.get_text() for t in first.texts]
    assert texts[0] == f"1,333   {4000 / 3 / max(roof, 1e9 / 8e14 * 1e6):.3g}× the roof"
    (alone,) = plots.chain(chain_records((1,))[:3], peaks).axes
    assert [label.get_text() for label in alone.get_yticklabels()] == NAMES[:3]
    with pytest.raises(ValueError, match="records must be at least one"):
        plots.chain([], peaks)


def test_the_figure_is_there_only_if_there_are_records(tmp_path):
    from common.report import figures

    chain = next(one for one in figures.FIGURES if one.path == "06_optimize/chain.svg")
    assert chain.optional and not chain.stale(tmp_path, results.Results())
    made = results.Results(records=[{"suite": "network", "case": f"{tables.NETWORK}, chain"}])
    assert chain.stale(tmp_path, made)


# Ours and its peers


@pytest.mark.parametrize(
    ("batch", "given", "made"),
    [
        (1, None, "latency"), (15, None, "latency"), (16, None, "throughput"), (256, None, "throughput"),
        (1, "none", None), (1, "throughput", "throughput"), (256, "latency", "latency"),
    ],
)  # fmt: skip
def test_what_suits_the_batch(batch, given, made):
    assert composed(batch, given) == made
    group = configurations("fp16", ("ours", "cudnn"), (), composed(batch, given))
    assert {c.implementation: c.optimize for c in group} == {"ours": made, "cudnn": None}
    assert configurations("fp32", ("ours",), ("NCHW",), made)[0].optimize is None


def test_a_composition_that_there_is_not():
    with pytest.raises(ValueError, match="optimize must be one of none, latency, throughput, got 'fast'"):
        network.Options(optimize="fast")


def test_ours_is_built_as_it_was_asked_for(model):
    x = np.zeros((1, 3, 32, 32), np.float32)
    for optimize, steps in ((None, 54), ("latency", 19)):
        configuration = Configuration("ours", "fp16", "NHWC", optimize)
        built = network.build_steps(configuration, model, x, "hot", False)
        assert len(built.calls[0].__self__.steps) == steps
    assert str(Configuration("ours", "fp16", "NHWC", "latency")) == "ours fp16 NHWC latency"


def test_ours_beside_every_peer(model, said):
    """The best of each, side by side, with intervals."""
    rows, times = [], {}
    for name, layout, us in (
        ("ours", "NHWC", 2.0),
        ("cudnn", "NCHW", 9.0),
        ("cudnn", "NHWC", 5.0),
        ("xla", "NHWC", 3.0),
    ):
        row = network.Row(Configuration(name, "fp16", layout), "graph", None, network.Check(1e-4, 4, 4, 1e-4))
        rows.append(row)
        times[row.name] = [us] * 6
    timings = {name: timing.Timing.of(values) for name, values in times.items()}
    line = network._side_by_side(rows, timing.Comparison(timings, times))
    assert line == "ours is 2.50× as fast as cudnn (2.50 – 2.50), 1.50× as fast as xla (1.50 – 1.50)"
    assert network._side_by_side(rows[1:], timing.Comparison(timings, times)) == ""


# Tuning


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "_tables", {})
    return tmp_path / "tiles.json"


def test_every_different_block_is_searched_and_kept(cache, said, monkeypatch, tmp_path):
    searched = []

    def found(problem, tried, timer):
        searched.append(problem)
        tile = tiles.rule(problem.block, problem.batch, problem.itemsize)
        worse = problem.block.expand == "stem"  # then the rest of it is searched alone
        return tiles.Found(problem, None if worse else tile, 5.0, 4.0 if worse else 10.0, 3.0, tile, tried)

    monkeypatch.setattr(search, "search", found)
    made = tuning.tune(
        weights.model("digits"), (1, 4), ("fp16",), 3, tmp_path / "more.json", said, timer=lambda launches: {}
    )
    assert len(made) == len(searched) and {p.batch for p in searched} == {1, 4}
    kinds = [p.block.expand for p in searched if p.batch == 1]
    assert kinds.count("stem") == 1 and kinds.count("none") == 1 and len(kinds) == len(set(searched)) / 2
    for path in (cache, tmp_path / "more.json"):
        table = json.loads(path.read_text())["found"]["float16"]
        assert len(table) == len(kinds) and all(set(batches) == {"1", "4"} for batches in table.values())
    shown = text(said)
    assert "2.00×" in shown and "separate kernels are faster" in shown and "unfused µs" in shown


@long
def test_a_search_on_the_simulator(cache, said):
    """With a stand-in for the clock: what it finds is what Network uses."""
    from common.network import Network

    graph, parameters = weights.network("digits", 32)
    onnx = topology.write_onnx(graph, parameters)

    def timer(launches):
        return {name: 9.0 if name == "unfused" else float(len(launches) - int(name)) for name in launches}

    made = tuning.tune(onnx, (1,), ("fp16",), 1, None, said, timer=timer)
    assert made and not any(one.wrong or one.failed for one in made)
    plan = Network(onnx, dtype="fp16", optimize="throughput").plan()
    tiles = {step.block: step.tile for step in plan.steps if hasattr(step, "block")}
    assert {one.problem.block: one.tile for one in made} == tiles


def test_what_cannot_be_tuned(said):
    model = weights.model("digits")
    for arguments, message in (
        ({"batches": (0,)}, "batch must be at least 1, got 0"),
        ({"dtypes": ("int8",)}, "dtype must be one of fp32, fp16, got 'int8'"),
        ({"tried": 0}, "tried must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            tuning.tune(model, **arguments, console=said, timer=lambda launches: {})
    if cuda.backend() != "gpu":
        with pytest.raises(NoGpu, match="nothing is timed on the simulator"):
            tuning.tune(model, console=said)


def test_environment_and_machine_agree():
    if cuda.backend() != "gpu":
        assert tiles.machine()["card"] == "the simulator"
    else:
        assert tiles.machine()["card"] == environment.card()
    assert os.path.basename(tiles.cache_path()).startswith("tiles-")
