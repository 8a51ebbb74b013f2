"""The suite "network": only what is right is timed, what fails is a line, and records say all that they must."""

import contextlib
import dataclasses
import io
import re

import numpy as np
import pytest
from bench_models import on_gpu, small
from rich.console import Console
from tiers import seldom

from common.bench import driver, network, peers
from common.bench.network import Configuration, Reference
from common.bench.peers import Built
from common.cuda import graphs
from common.measure import environment, timing
from common.measure.roofline import ARITHMETIC
from common.network import Network
from common.network.compare import TOLERANCES
from common.network.replay import Captured
from common.quantize import Integers
from common.report import results

PRECISE = ("fp32", "tf32", "fp16")


@pytest.fixture(scope="module")
def model():
    return small()


@pytest.fixture(scope="module")
def reference(model):
    return Reference(model, checked=4)


@pytest.fixture
def said():
    """A console, and what was printed on it."""
    return Console(file=io.StringIO(), width=200, highlight=False)


def text(console):
    return console.file.getvalue()


class Fake:
    """An implementation on the CPU, timed by the clock: ONNX Runtime's logits, and `change` made to them."""

    def __init__(self, model, x, change=lambda logits: logits, sets=1):
        self.reference, self.change, self.sets = Network(model.onnx, "onnxruntime"), change, sets
        self.logits = None
        self.feed(x)

    def feed(self, x):
        self.fed = x

    def call(self):
        self.logits = self.change(self.reference(self.fed))

    def poison(self):
        self.logits = np.full_like(self.reference(self.fed), np.nan)

    def built(self):
        return Built(
            [self.call] * self.sets, ("host",), self.feed, lambda: [self.logits] * self.sets, ARITHMETIC["fp32"],
            self.poison, wait=lambda: None,
        )  # fmt: skip


@pytest.fixture
def fakes(monkeypatch):
    """Implementations by name: what to do to the logits, or an exception to raise. Timed on the CPU."""
    changes = {}

    def build(configuration, model, x, mode, tune):
        change = changes.get(configuration.implementation, lambda logits: logits)
        if isinstance(change, Exception):
            raise change
        return Fake(model, x, change, 2 if mode == "rotating" else 1).built()

    monkeypatch.setattr(network, "build", build)
    monkeypatch.setattr(graphs, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(timing, "WARM_UP_US", 0.0)
    monkeypatch.setattr(timing, "SAMPLE_US", {"graph": 1.0, "eager": 1.0, "host": 1.0})
    monkeypatch.setattr(timing, "IDLE_US", 1.0)
    return changes


def measure(names, model, reference, said, precision="fp32", batch=2, **options):
    group = [Configuration(name, precision, "NCHW") for name in names]
    return network.measure(group, model, reference, batch, network.Options(samples=6, **options), said)


# What goes in, and what must come out


def test_pictures_are_random_and_the_same_whatever_their_number():
    few, many = network.pictures(2, (3, 9, 8)), network.pictures(40, (3, 9, 8))
    np.testing.assert_array_equal(few, many[:2])
    assert many.dtype == np.float32 and many.shape == (40, 3, 9, 8)
    assert abs(many.mean()) < 0.05 and abs(many.std() - 1) < 0.05 and (many != 0).all()
    assert not np.array_equal(many[0], many[1]) and not np.array_equal(many, network.pictures(40, (3, 9, 8), seed=1))


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 9])
def test_every_batch_is_checked_on_the_same_pictures(model, reference, batch):
    """Also where batches do not divide them, or are larger; in the end the first batch is fed."""
    fake = Fake(model, reference.pictures(batch))
    found = network.check(fake.built(), reference, batch)
    assert found.error <= 1e-6 and found.same_top5 == found.images == 4
    np.testing.assert_array_equal(fake.fed, reference.pictures(batch))


def test_what_reads_its_first_input_for_ever_is_found(model, reference):
    """A CUDA graph that holds a copy of its input, say."""
    fake = Fake(model, reference.pictures(2))
    assert not network.check(dataclasses.replace(fake.built(), feed=lambda x: None), reference, 1).within(
        TOLERANCES["fp16"]
    )


def test_one_wrong_set_of_several_is_found(model, reference):
    fake = Fake(model, reference.pictures(2))
    right = fake.built()
    both = dataclasses.replace(right, calls=[fake.call] * 2, results=lambda: [fake.logits, fake.logits * 1.1])
    assert network.check(both, reference, 2).error == pytest.approx(0.1, rel=1e-3)
    nan = dataclasses.replace(both, results=lambda: [fake.logits * np.nan, fake.logits * 1.1])
    assert np.isnan(network.check(nan, reference, 2).error)


@pytest.mark.parametrize("precision", PRECISE)
def test_bounds(precision):
    bound = {"fp32": 1e-5, "tf32": 5e-3, "fp16": 5e-3}[precision]
    assert network.Check(bound, 0, 4, 1.0).within(TOLERANCES[precision])
    assert not network.Check(bound * 1.01, 4, 4, 0.0).within(TOLERANCES[precision])
    assert not network.Check(float("nan"), 4, 4, 0.0).within(TOLERANCES[precision])


def test_the_work_is_that_of_54_steps():
    """54.9 MB of activations and 13.95 MB of parameters, 300.8 million multiply-adds."""
    model = peers.Model.of("seeded")
    one = network.work(model, 1, "fp32")
    assert one.bytes == 54_906_784 + 4 * model.graph.params
    assert one.flops == 2 * model.graph.macs + 1280 * 7 * 7  # the pool's additions
    assert one.flops == pytest.approx(2 * 300.8e6, rel=1e-3)
    assert network.work(model, 1, "tf32") == one and network.work(model, 1, "fp16").bytes * 2 == one.bytes
    many = network.work(model, 32, "fp32")
    assert many.flops == 32 * one.flops and many.bytes == 32 * 54_906_784 + 4 * model.graph.params


# What is timed


def test_records_say_all_that_they_must(fakes, model, reference, said, tmp_path):
    records, right = measure(["ours", "cudnn", "xla"], model, reference, said)
    assert right and [r["implementation"] for r in records] == ["ours", "cudnn", "xla"]
    results.save(tmp_path / "card", "run", {"card": "a card", "date": "2031-02-03"}, records)  # which checks them
    ours, cudnn, xla = records
    for r in records:
        assert r["suite"] == "network" and r["case"] == "mobilenetv2-0.35-33" and r["layout"] == "NCHW"
        assert r["precision"] == "fp32" and r["batch"] == 2 and r["mode"] == "hot" and r["samples"] == 6
        assert r["error"] <= 1e-5 and r["same_top5"] == r["checked_images"] == 4
        assert 1e-8 < r["error_float64"] <= 1e-5 and 0 < r["lone_p5_us"] <= r["lone_us"] <= r["lone_p95_us"]
        assert "cold_us" not in r  # these have streams of their own
        assert r["bytes"] == network.work(model, 2, "fp32").bytes and 0 < r["p5_us"] <= r["median_us"] <= r["p95_us"]
    assert (
        set(ours["ratios"]) == {"cudnn"}
        and set(cudnn["ratios"]) == {"ours"}
        and set(xla["ratios"]) == {"ours", "cudnn"}
    )
    ratio = xla["ratios"]["cudnn"]
    assert ratio["to"] == "cudnn fp32 NCHW host" and ratio["low"] <= ratio["median"] <= ratio["high"]
    shown = text(said)
    assert "batch 2, fp32" in shown and "4 of 4" in shown and all(r["implementation"] in shown for r in records)


@pytest.mark.parametrize("precision", PRECISE)
def test_every_peer_has_its_error_and_its_ratio_to_ours_of_the_same_process(fakes, model, reference, said, precision):
    """So the next run on a card fills the columns of errors: no implementation is asked for more than its logits."""
    names = [name for name in network.IMPLEMENTATIONS if network.DEFAULT_LAYOUTS[name].get(precision)]
    for i, name in enumerate(names):
        fakes[name] = lambda logits, off=(i + 1) * 8e-7: logits * (1 + off)
    records, right = measure(names, model, reference, said, precision)
    assert right and len(records) == len(names) and {"cudnn", *peers.PEERS} <= set(names)
    for i, r in enumerate(records):
        assert r["error_float64"] == pytest.approx((i + 1) * 8e-7, rel=0.7)
    own = "ours" if precision != "tf32" else "cudnn"
    others = [r for r in records if r["case"] == model.name and r["implementation"] != own]
    assert len(others) >= 6
    for ratio in (r["ratios"][own] for r in others):
        assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]


@pytest.mark.parametrize("value", [1.001, np.nan])
def test_a_wrong_one_leaves_no_record(fakes, model, reference, said, value):
    fakes["xla"] = lambda logits: logits * np.float32(value)
    records, right = measure(["ours", "xla"], model, reference, said)
    assert not right and [r["implementation"] for r in records] == ["ours"]
    (line,) = [line for line in text(said).splitlines() if "wrong" in line]
    assert re.match(
        r"xla fp32 NCHW, batch 2: wrong, not timed: a relative error of (1\.0e-03|nan), allowed are 1e-05", line
    )


def test_a_real_peer_with_a_perturbed_weight_leaves_no_record(fakes, monkeypatch, model, reference, said):
    parameters = {name: value.copy() for name, value in model.parameters.items()}
    parameters["features.9.conv.1.0.weight"] *= np.float32(1.01)
    other = dataclasses.replace(model, parameters=parameters)

    def build(configuration, model, x, mode, tune):
        wrong = configuration.layout == "NHWC"
        built = peers.TorchEager("fp32", configuration.layout).build(other if wrong else model, x, "cpu")
        return dataclasses.replace(built, launches=("host",), wait=lambda: None)  # no CUDA events here

    monkeypatch.setattr(network, "build", build)
    group = network.configurations("fp32", ["torch-eager"])
    records, right = network.measure(group, model, reference, 2, network.Options(samples=6), said)
    assert not right and [r["layout"] for r in records] == ["NCHW"]
    assert "torch-eager fp32 NHWC, batch 2: wrong" in text(said)


def test_a_result_that_turns_wrong_while_it_is_timed_leaves_no_record(fakes, monkeypatch, model, reference, said):
    factor = [1]
    original = timing.compare

    def compare(*arguments, **options):
        factor[0] = 2
        return original(*arguments, **options)

    monkeypatch.setattr(timing, "compare", compare)
    fakes["ours"] = lambda logits: logits * np.float32(factor[0])
    records, right = measure(["ours", "cudnn"], model, reference, said)
    assert not right and [r["implementation"] for r in records] == ["cudnn"]
    assert "ours fp32 NCHW host, batch 2: wrong when it was timed, though right before" in text(said)


def test_a_failure_is_a_line_and_the_rest_goes_on(fakes, model, reference, said):
    fakes["cudnn"] = MemoryError("out of memory: [17 GiB]\nand more lines")
    fakes["xla"] = peers.Unavailable("JAX is not installed")
    records, right = measure(["ours", "cudnn", "xla"], model, reference, said)
    assert right and [r["implementation"] for r in records] == ["ours"]
    lines = text(said).splitlines()
    assert "cudnn fp32 NCHW, batch 2: not timed: out of memory: [17 GiB]" in lines
    assert "xla fp32 NCHW, batch 2: not timed: JAX is not installed" in lines


def test_a_comparison_that_fails_is_a_line(fakes, monkeypatch, model, reference, said):
    def broken(subjects, samples):
        raise RuntimeError("the card fell off the bus")

    monkeypatch.setattr(timing, "compare", broken)
    assert measure(["ours"], model, reference, said) == ([], True)
    assert "batch 2, fp32: not timed: the card fell off the bus" in text(said)


def test_sets_of_buffers_and_the_way_from_the_host_are_cases_of_their_own(fakes, model, reference, said):
    (hot,), _ = measure(["ours"], model, reference, said)
    (rotating,), _ = measure(["ours"], model, reference, said, mode="rotating")
    (host,), _ = measure(["ours"], model, reference, said, mode="host")
    assert rotating["mode"] == "rotating" and rotating["sets"] == 2 and rotating["case"] == hot["case"]
    assert host["case"] == f"{model.name}, host to host" and host["launch"] == "host"
    (apart,), _ = measure(["ours"], model, reference, said, optimize="none")
    assert apart["case"] == f"{model.name}, step by step"
    identities = {tuple(r.get(key) for key in results.IDENTITY) for r in (hot, rotating, host, apart)}
    assert len(identities) == 4
    assert "lone_us" in hot and not {"lone_us", "cold_us"} & {*rotating, *host}


def test_single_calls_are_recorded_beside_the_calls_back_to_back(monkeypatch, model, reference, said):
    """Of every row: after a gap, and with a cold cache if its calls are on CuPy's stream. One mode may fail."""
    asked = []

    def compare(benchmarks, samples):
        asked.append({name: (type(one).__name__, one.mode) for name, one in benchmarks.items()})
        if "cold" in str(asked[-1]):
            raise RuntimeError("out of memory")
        times = {name: [10.0, 11.0, 12.0, 13.0, 14.0, 15.0] for name in benchmarks}
        return timing.Comparison({name: one.timing(times[name]) for name, one in benchmarks.items()}, times)

    monkeypatch.setattr(timing, "compare", compare)
    built = Fake(model, reference.pictures(1)).built()
    eager = dataclasses.replace(built, launches=("eager",), wait=None)
    found = network.Check(1e-6, 4, 4, 2e-6)
    rows = [
        network.Row(Configuration("xla", "fp32", "NHWC"), "host", built, found),
        network.Row(Configuration("cudnn", "fp32", "NHWC"), "eager", eager, found),
    ]
    assert network.single_calls(rows, network.Options(samples=6), said) == {
        row.name: {"lone_us": 12.5, "lone_p5_us": 10.25, "lone_p95_us": 14.75} for row in rows
    }
    host, eager = "xla fp32 NHWC host", "cudnn fp32 NHWC eager"
    assert asked == [{host: ("Lone", "lone"), eager: ("Lone", "lone")}, {eager: ("Cold", "cold")}]
    assert "cold calls: not timed: out of memory" in text(said)


def test_the_error_against_float64_is_of_the_same_pictures(model, reference):
    """Computed by PyTorch in float64; ONNX Runtime in float32 is as near as its format allows, and no nearer."""
    assert reference.exact.dtype == np.float64 and reference.exact.shape == reference.logits.shape
    assert 1e-8 < network.relative_error(reference.logits, reference.exact) < 2e-6
    wrong = Fake(model, reference.pictures(2), lambda logits: logits * np.float32(1.001)).built()
    assert network.check(wrong, reference, 2).error_float64 == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_calls_from_python_are_right_whatever_is_fed(model, reference, mode, precision):
    """From PyTorch's tensors to PyTorch's tensors, on the simulator as on a GPU; the third call is captured."""
    built = network.build(Configuration("ours", precision, "NHWC"), model, reference.pictures(1), mode, False)
    assert built.launches == ("eager",) and network.check(built, reference, 1).within(TOLERANCES[precision])
    (call,) = built.calls
    net = call.__closure__[[*call.__code__.co_freevars].index("net")].cell_contents
    assert isinstance(net.runner.program_for((1, *model.graph.input_shape[1:])), Captured) == (mode == "replay")


def test_records_of_calls_from_python_are_cases_of_their_own(fakes, model, reference, said):
    for mode, words in network.CALLED.items():
        (r,), _ = measure(["ours"], model, reference, said, mode=mode)
        assert r["case"] == f"{model.name}, {words}" and "lone_us" in r
    assert network.Options(mode="call").backends == ("ours", "cudnn")


def test_records_of_ours_by_fma_alone_are_a_case_of_their_own(fakes, model, reference, said):
    (ours, fma), _ = measure(["ours", "ours-fma"], model, reference, said)
    assert ours["implementation"] == fma["implementation"] == "ours" and ours["case"] == model.name
    assert fma["case"] == f"{model.name}, FMA only" and set(fma["ratios"]) == {"ours"}
    assert network.superseded([ours])(ours) and not network.superseded([ours])(fma)
    (host,), _ = measure(["ours-fma"], model, reference, said, mode="host")
    assert host["case"] == f"{model.name}, FMA only, host to host"


def test_ours_step_by_step_stands_beside_ours_in_one_process(fakes, model, reference, said):
    (ours, steps, cudnn), _ = measure(["ours", "ours-steps", "cudnn"], model, reference, said)
    assert steps["implementation"] == "ours" and steps["case"] == f"{model.name}, step by step"
    assert set(steps["ratios"]) == {"ours", "cudnn"} and set(cudnn["ratios"]) == {"ours"}
    assert cudnn["ratios"]["ours"]["to"].startswith("ours ") and steps["composition"] == "none"
    assert not network.superseded([ours])(steps) and network.superseded([steps])(steps)
    for precision in ("fp32", "fp16"):
        both = network.configurations(precision, ["ours", "ours-steps"], (), "latency")
        assert [one.optimize for one in both] == ["latency", None]


def test_ours_by_fma_alone_is_a_row_of_its_own(model, monkeypatch):
    (one,) = network.configurations("fp32", ["ours-fma"], (), "latency")
    assert str(one) == "ours-fma fp32 NHWC latency" and network.configurations("fp16", ["ours-fma"]) == []
    asked = {}

    def opened(onnx, backend, **options):
        asked.update(backend=backend, **options)
        raise StopIteration

    monkeypatch.setattr(network, "Network", opened)
    with pytest.raises(StopIteration):
        network.build(one, model, np.zeros((1, 3, 33, 33), np.float32), "hot", False)
    assert asked == {
        "backend": "kernels", "dtype": "fp32", "layout": "NHWC", "optimize": "latency", "arithmetic": "fma",
        "replay": False,
    }  # fmt: skip
    for name, precision in (("ours", "tf32"), ("ours-fma", "fp16"), ("ours-fma", "tf32")):
        with pytest.raises(ValueError, match=f"{name} has no {precision}"):
            network.build(Configuration(name, precision, "NHWC"), model, np.zeros((1, 3, 33, 33)), "hot", False)


def test_a_call_that_replays_a_graph_of_its_own_is_recorded_as_one(fakes, monkeypatch, model, reference, said):
    built = dataclasses.replace(Fake(model, reference.pictures(2)).built(), launched_as="graph")
    monkeypatch.setattr(network, "build", lambda *_: built)
    (r,), _ = measure(["torch-graph"], model, reference, said)
    assert r["launch"] == "graph"


@seldom(3)
def test_the_whole_suite_on_fakes(fakes, monkeypatch, model, said):
    options = network.Options(
        backends=("kernels", "cudnn", "torch-graph"), batches=(1, 3), precisions=("fp32", "tf32"), samples=6
    )
    states = []
    original = network.measure
    monkeypatch.setattr(network, "measure", lambda group, *rest: states.append(peers_state()) or original(group, *rest))
    before = peers_state()
    measured = list(network.run(options, said, model, checked=4))
    assert peers_state() == before
    assert states == [(False, "highest"), (True, "high")] * 2
    assert all(right for _, right in measured)
    found = [(r["batch"], r["precision"], r["implementation"], r["layout"]) for records, _ in measured for r in records]
    fp32 = [("ours", "NHWC"), ("cudnn", "NCHW"), ("cudnn", "NHWC"), ("torch-graph", "NCHW"), ("torch-graph", "NHWC")]
    tf32 = [("cudnn", "NHWC"), ("torch-graph", "NCHW"), ("torch-graph", "NHWC")]
    assert found == [
        (batch, precision, *one)
        for batch in (1, 3)
        for precision, ones in (("fp32", fp32), ("tf32", tf32))
        for one in ones
    ]


def peers_state():
    import torch

    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


# Which


def test_what_is_timed_unless_told_otherwise():
    options = network.Options()
    # torch-compile takes minutes
    libraries = ("cudnn", "torch-eager", "torch-graph", "xla", "onnxruntime-cuda", "tensorrt")
    always = ("ours", "ours-fma", "ours-steps", *libraries)
    assert options.backends == always
    assert options.batches == (1, 8, 32, 256) and options.precisions == PRECISE
    assert network.Options(mode="rotating").backends == network.Options(mode="host").backends == ("ours", "cudnn")
    assert network.Options(backends=("torch-compile", "kernels", "ours")).backends == ("torch-compile", "ours")


def test_a_layout_that_is_named_is_taken():
    (one,) = network.configurations("fp16", ["cudnn"], ["NCHW"])
    assert str(one) == "cudnn fp16 NCHW"
    assert [c.layout for c in network.configurations("fp16", ["cudnn"])] == ["NHWC"]
    assert network.configurations("tf32", ["ours"]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backends": ("tensorflow",)},
            "backend must be one of ours, ours-fma, ours-steps, cudnn, .* got 'tensorflow'",
        ),
        (
            {"backends": ("xla",), "mode": "rotating"},
            "backend with mode 'rotating' must be one of ours, ours-fma, ours-steps, cudnn, got 'xla'",
        ),
        ({"precisions": ("bf16",)}, "precision must be one of fp32, tf32, fp16, int8, got 'bf16'"),
        ({"layouts": ("nhwc",)}, "layout must be one of NCHW, NHWC, got 'nhwc'"),
        ({"samples": 5}, "samples must be at least 6, got 5"),
    ],
)
def test_options_that_there_are_not(options, message):
    with pytest.raises(ValueError, match=message):
        network.Options(**options)


# Saving


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A results file of its own."""
    path = tmp_path / "card"
    monkeypatch.setattr(
        environment, "environment", lambda watch=None: {"card": "x", "date": "2031-02-03", "commit": "c0ffee"}
    )
    monkeypatch.setattr(results, "path_of", lambda gpu, folder=None: path)
    return path


@seldom(6)
def test_every_group_is_saved_as_soon_as_it_is_measured(fakes, monkeypatch, model, said, card):
    sizes = []
    monkeypatch.setattr(network.Model, "of", lambda *_: model)
    monkeypatch.setattr(network, "CHECKED", 4)
    original = driver.Run.save
    monkeypatch.setattr(
        driver.Run,
        "save",
        lambda run, *given: original(run, *given) or sizes.append(len(results.load(card).records)),
    )
    options = network.Options(backends=("cudnn",), batches=(1, 2), precisions=("fp16", "tf32"), samples=6, save=True)
    assert network.bench(options, said)
    assert sizes == [1, 2, 3, 4] and "saved as 2031-02-03-network-c0ffee in" in text(said)
    content = results.load(card)
    assert list(content.runs) == ["2031-02-03-network-c0ffee"]
    assert network.bench(
        network.Options(backends=("cudnn",), batches=(1,), precisions=("fp16",), samples=6, save=True), said
    )
    content = results.load(card)
    assert list(content.runs) == ["2031-02-03-network-c0ffee", "2031-02-03-network-c0ffee-2"]
    assert len(content.records) == 4 and content.records[-1]["run"].endswith("-2")


def test_a_third_run_of_the_day(card):
    for number, name in enumerate(["2031-02-03-network-c0ffee", "2031-02-03-network-c0ffee-2"], 1):
        r = results.record(
            "network", "x", "ours", precision="fp32", arithmetic="x", batch=number, error=0.0, layout="NCHW",
            timing=timing.Timing.of([1.0] * 6),
        )  # fmt: skip
        results.save(card, name, {"card": "x", "date": "2031-02-03"}, [r])
    assert driver.Run("network").name == "2031-02-03-network-c0ffee-3"
    assert driver.Run("peaks").name == "2031-02-03-peaks-c0ffee"


def test_nothing_timed_is_no_success(fakes, monkeypatch, model, said, card):
    monkeypatch.setattr(network.Model, "of", lambda *_: model)
    fakes["ours"] = RuntimeError("no")
    assert not network.bench(
        network.Options(backends=("ours",), batches=(1,), precisions=("fp32",), samples=6, save=True), said
    )
    assert "nothing was timed" in text(said) and not card.exists()


# On a GPU


@on_gpu
@pytest.mark.parametrize("mode", ["hot", "rotating", "host", "call", "replay"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_our_steps_on_a_gpu(model, said, mode, precision):
    options = network.Options(
        backends=("ours", "cudnn"), batches=(2,), precisions=(precision,), mode=mode, samples=6, tune=False
    )
    ((records, right),) = network.run(options, said, model, checked=4)
    print(text(said))
    assert right and "ours" in {r["implementation"] for r in records}
    assert all(r["mode"] == ("rotating" if mode == "rotating" else "hot") for r in records)
    if mode == "rotating":
        assert all(r["sets"] >= 2 for r in records)
    if mode in ("hot", "call", "replay"):
        assert all({"lone_us", "cold_us"} <= r.keys() for r in records)


@on_gpu
def test_the_peers_on_a_gpu(model, said):
    ((records, right),) = network.run(
        network.Options(batches=(2,), precisions=("fp32",), samples=6), said, model, checked=4
    )
    print(text(said))
    assert right and {"ours", "torch-eager", "torch-graph"} <= {r["implementation"] for r in records}
    assert all(r["launch"] == "graph" for r in records if r["implementation"] == "torch-graph")


# int8


def in_int8(model, reference, said, **changes):
    """(records, whether all were right, what was printed) of fakes in int8, made by `changes` of their logits."""
    group = network.configurations("int8", ("ours", "onnxruntime-cuda"))
    return *network.measure(group, model, reference, 2, network.Options(samples=6), said), text(said)


@seldom(6)
def test_int8_is_checked_against_the_integer_steps(fakes, model, reference, said, monkeypatch):
    """And has its loss of accuracy in the record; fp16 stands beside it, without a record."""
    integers = Network(model.quantized, Integers(as_kernels=True))

    class Quantized(Fake):
        def call(self):
            self.logits = integers(self.fed)

    def quantized(configuration, model, x, mode, tune):
        return (Quantized if configuration.in_int8 else Fake)(model, x).built()

    monkeypatch.setattr(network, "build", quantized)
    records, all_right, words = in_int8(model, reference, said)
    assert all_right and [r["implementation"] for r in records] == ["ours", "onnxruntime-cuda"]
    assert all(r["precision"] == "int8" and r["deviation"] == 0 and r["error"] > 1e-3 for r in records)
    assert records[0]["ratios"].keys() == {"ours-fp16"} and "our fp16's" in words
    assert records[0]["bytes"] < network.work(model, 2, "fp16").bytes


def test_a_network_that_is_not_the_quantized_one_is_wrong_in_int8(fakes, model, reference, said):
    """Logits of fp32 are far from those of int8."""
    records, all_right, words = in_int8(model, reference, said)
    assert not records and not all_right and "ours int8 NHWC, batch 2: wrong" in words


@seldom(6)
@pytest.mark.parametrize("optimize", [None, "throughput"])
def test_ours_in_int8_has_the_bits_of_the_integer_steps(model, reference, optimize):
    built = network.build_steps(
        Configuration("ours", "int8", "NHWC", optimize), model, reference.pictures(2), "hot", True
    )
    found = network.check(built, reference, 2, in_int8=True)
    assert found.deviation == 0 and found.within(TOLERANCES["int8"]) and built.arithmetic == ARITHMETIC["int8"]
    beside = network.build_steps(Configuration("ours-fp16", "int8", "NHWC"), model, reference.pictures(2), "hot", True)
    assert network.check(beside, reference, 2).within(TOLERANCES["fp16"]) and beside.arithmetic == ARITHMETIC["fp16"]


def test_onnx_runtime_runs_the_quantized_network(model, reference):
    built = peers.OnnxRuntimeCuda("int8", "NCHW").build(model, reference.pictures(4), "cpu")
    assert network.check(built, reference, 4, in_int8=True).deviation <= 1e-5
    if not on_gpu():
        with pytest.raises(peers.Unavailable, match="has no CUDAExecutionProvider"):
            peers.OnnxRuntimeCuda("int8", "NCHW").build(model, reference.pictures(4))
