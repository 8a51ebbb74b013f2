"""python -m common energy: what is right is metered, the fastest layout of each, and records say all that they must."""

import contextlib
import dataclasses
import functools
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from bench_models import small
from rich.console import Console
from tiers import seldom

from common.bench import energy as metering
from common.bench import network, peers
from common.bench.energy import Options
from common.bench.network import Reference
from common.bench.peers import Built
from common.cuda import graphs
from common.measure import energy, environment, timing
from common.measure.roofline import ARITHMETIC
from common.network import Network
from common.report import results, tables

IDLE = 100.0  # W


class Machine:
    """A card of constant power: a call takes `seconds` and `joules` above idleness; the counter changes every 0.1 s."""

    def __init__(self, counter=True, readings=True):
        self.clock = self.free_at = self.worked = 0.0
        self.queue = []  # (end, joules) of work that is not done
        self.counter, self.readings, self.shown, self.changed = counter, readings, 0.0, 0.0

    def work(self, seconds, joules):
        self.clock += 1e-6
        self.free_at = max(self.clock, self.free_at) + seconds
        self.queue.append((self.free_at, joules))

    def now(self):
        return self.clock

    def sleep(self, seconds):
        self.clock += seconds

    def energy_j(self):
        self.clock += 1e-5
        if not self.counter:
            return None
        if self.clock - self.changed >= 0.1:
            while self.queue and self.queue[0][0] <= self.clock:
                self.worked += self.queue.pop(0)[1]
            self.shown, self.changed = IDLE * self.clock + self.worked, self.clock
        return self.shown

    def read(self):
        return {"sm_mhz": 1980.0, "power_w": None, "reasons": 0x4, "temperature_c": 40.0}

    def mark(self):
        end = self.free_at
        return lambda: self.clock >= end


@pytest.fixture(scope="module")
def model():
    return small()


@pytest.fixture(scope="module")
def reference(model):
    return Reference(model, checked=4)


@pytest.fixture
def said():
    return Console(file=io.StringIO(), width=240, highlight=False)


def text(console):
    return console.file.getvalue()


@pytest.fixture
def machine():
    return Machine()


# implementation, layout → s a call, J a call
COSTS = {
    ("ours", "NHWC"): (2e-3, 0.6), ("cudnn", "NCHW"): (4e-3, 2.0), ("cudnn", "NHWC"): (3e-3, 1.2),
    ("torch-graph", "NCHW"): (5e-3, 1.6), ("torch-graph", "NHWC"): (6e-3, 2.4), ("torch-compile", "NCHW"): (4e-3, 1.5),
}  # fmt: skip


@pytest.fixture
def fakes(monkeypatch, machine):
    """Implementations whose logits are ONNX Runtime's, and whose calls are work of COSTS for the machine.

    What `fakes` holds by implementation is done to the logits, or raised.
    """
    changes = {}

    def build(configuration, model, x, mode, tune):
        name = configuration.implementation
        change = changes.get(name, lambda logits: logits)
        if isinstance(change, Exception):
            raise change
        reference, state = Network(model.onnx, "onnxruntime"), SimpleNamespace(logits=None)

        def feed(images):
            state.right = reference(images)

        def call():
            machine.work(*COSTS[name, configuration.layout])
            state.logits = change(state.right)

        def poison():
            state.logits = np.full_like(state.right, np.nan)

        feed(x)
        return Built([call], ("host",), feed, lambda: [state.logits], ARITHMETIC["fp32"], poison, lambda: None)

    def timed_in_turn(rows, batch, options, console):
        assert options.samples == metering.SAMPLES
        us = {row.name: 1e6 * COSTS[row.configuration.implementation, row.configuration.layout][0] for row in rows}
        return list(rows), {name: SimpleNamespace(median_us=value) for name, value in us.items()}, True

    def subject(row, batch, waiting):
        return energy.Workload(row.built.calls[0], batch)

    monkeypatch.setattr(network, "build", build)
    monkeypatch.setattr(metering, "timed_in_turn", timed_in_turn)
    monkeypatch.setattr(metering, "_workload", subject)
    monkeypatch.setattr(graphs, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(timing, "WARM_UP_US", 0.0)
    monkeypatch.setattr(timing, "SAMPLE_US", {"graph": 1.0, "eager": 1.0, "host": 1.0})
    return changes


def measure(backends, model, reference, said, machine, precision="fp32", batch=2):
    plan = Options(backends=backends, batches=(batch,), precisions=(precision,), seconds=2, rounds=2, seed=5)
    return metering.measure(plan, model, reference, batch, precision, said, machine)


# ---- Metering


def test_records_of_the_fastest_layouts_say_all_that_they_must(fakes, model, reference, said, machine, tmp_path):
    records, right = measure(("ours", "cudnn", "torch-graph"), model, reference, said, machine)
    assert right
    found = [(r["implementation"], r["layout"], r["time_us"]) for r in records]
    assert found == [("ours", "NHWC", 2000.0), ("cudnn", "NHWC", 3000.0), ("torch-graph", "NCHW", 5000.0)]
    results.save(tmp_path / "card", "run", {"card": "a card", "date": "2031-02-03"}, records)  # which checks them
    for r, mj, watts in zip(records, (300, 600, 800), (400, 500, 420), strict=True):
        assert r["mj_low"] <= mj <= r["mj_high"] and r["mj_per_image"] == pytest.approx(mj, rel=0.01)
        assert r["watts"] == pytest.approx(watts, rel=0.01) and r["idle_w"] == pytest.approx(IDLE, rel=1e-3)
        assert r["gross_mj"] > r["mj_per_image"] and r["gross_mj_low"] <= r["gross_mj"] <= r["gross_mj_high"]
        assert r["suite"] == "energy" and r["case"] == model.name and r["precision"] == "fp32" and r["batch"] == 2
        assert r["method"] == "counter" and r["rounds"] == 2 and r["seed"] == 5 and 4 <= r["seconds"] <= 5
        assert r["images"] == pytest.approx(2 * r["seconds"] / r["time_us"] * 1e6, rel=0.01)
        assert r["error"] <= 1e-5 and r["same_top5"] == r["checked_images"] == 4 and r["launch"] == "host"
        assert 1e-8 < r["error_float64"] <= 1e-5
        assert r["sm_mhz"] == [1980] * 3 and r["throttle"] == ["power cap"] and "notes" not in r
    assert [r.get("composition") for r in records] == ["latency", None, None]


def test_the_table_and_the_ratio_to_the_best_peer(fakes, model, reference, said, machine):
    records, _ = measure(("ours", "cudnn", "torch-graph"), model, reference, said, machine)
    shown = text(said)
    assert "batch 2, fp32; energy counter, orders of seed 5" in shown and "best peer" in shown
    assert "round 1 of 2, the card idles at 100.0 W" in shown and "power cap" in shown
    ours, cudnn, _ = records
    assert metering.best_peer(records) is cudnn
    middle, low, high = metering.ratio(cudnn, ours)
    assert low <= middle <= high and middle == pytest.approx(2.0, rel=0.02)
    assert f"the best peer, cudnn, {middle:.2f} times the energy that it takes ours ({low:.2f} – {high:.2f})" in shown
    assert metering.best_peer([ours]) is None


def test_only_ours_and_only_a_peer_have_no_ratio(fakes, model, reference, said, machine):
    for name in ("ours", "cudnn"):
        records, right = measure((name,), model, reference, said, machine)
        assert right and len(records) == 1
    assert "times the energy" not in text(said)


def test_a_wrong_one_is_not_metered(fakes, model, reference, said, machine):
    fakes["cudnn"] = lambda logits: logits * np.float32(1.001)
    records, right = measure(("ours", "cudnn"), model, reference, said, machine)
    assert not right and [r["implementation"] for r in records] == ["ours"]
    assert "cudnn fp32 NHWC, batch 2: wrong, not timed" in text(said)


def test_one_that_turns_wrong_while_it_is_metered_leaves_no_record(fakes, model, reference, said, machine, monkeypatch):
    factor, original = [1], energy.measure

    def meter(*arguments, **options):
        factor[0] = 2
        return original(*arguments, **options)

    monkeypatch.setattr(energy, "measure", meter)
    fakes["ours"] = lambda logits: logits * np.float32(factor[0])
    records, right = measure(("ours", "cudnn"), model, reference, said, machine)
    assert not right and [r["implementation"] for r in records] == ["cudnn"]
    assert "ours fp32 NHWC latency host, batch 2: wrong when it was metered, though right before" in text(said)


def test_what_cannot_run_is_a_line(fakes, model, reference, said, machine):
    fakes["torch-graph"] = peers.Unavailable("PyTorch is not installed")
    records, right = measure(("ours", "torch-graph"), model, reference, said, machine)
    assert right and len(records) == 1 and "not timed: PyTorch is not installed" in text(said)
    fakes["ours"] = MemoryError("out of memory")
    assert measure(("ours", "torch-graph"), model, reference, said, machine) == ([], True)


def test_a_card_that_does_not_tell_is_an_error(fakes, model, reference, said):
    with pytest.raises(energy.Unmetered, match="its energy cannot be measured"):
        measure(("ours",), model, reference, said, Machine(counter=False))


@seldom(6)
def test_the_whole_of_it(fakes, monkeypatch, model, said, machine, tmp_path):
    path = tmp_path / "card"
    here = {"card": "x", "date": "2031-02-03", "commit": "c0ffee"}
    monkeypatch.setattr(environment, "environment", lambda watch=None: here)
    monkeypatch.setattr(results, "path_of", lambda gpu, folder=None: path)
    monkeypatch.setattr(metering.energy, "Card", lambda: machine)
    monkeypatch.setattr(metering.Model, "of", lambda *_: model)
    plan = Options(
        backends=("ours", "cudnn"), batches=(1, 3), precisions=("fp32", "tf32"), seconds=10, rounds=2, save=True
    )
    assert metering.bench(plan, said)
    content = results.load(path)
    assert [(r["batch"], r["implementation"], r["precision"]) for r in content.records] == [
        (batch, name, precision)
        for batch in (1, 3)
        for name, precision in (("ours", "fp32"), ("cudnn", "fp32"), ("cudnn", "tf32"))
    ]
    assert list(content.runs) == ["2031-02-03-energy-c0ffee"]
    assert "saved as 2031-02-03-energy-c0ffee" in text(said) and text(said).index("together about") < 600
    assert metering.bench(dataclasses.replace(plan, batches=(1,), precisions=("fp32",)), said)
    (again,) = results.find(results.load(path), implementation="ours", batch=1)
    assert again["run"] == "2031-02-03-energy-c0ffee-2" and again["previous_run"] == "2031-02-03-energy-c0ffee"
    assert again["previous_mj_per_image"] == pytest.approx(again["mj_per_image"], rel=0.01)


def test_another_layout_replaces_the_old_one():
    old = {"suite": "energy", "case": "m", "implementation": "cudnn", "precision": "fp16", "batch": 1, "layout": "NCHW"}
    goes = metering.superseded([old | {"layout": "NHWC"}])
    assert goes(old) and not goes(old | {"batch": 256}) and not goes(old | {"suite": "network"})


def test_a_runtime_with_streams_of_its_own_is_waited_for_by_a_thread():
    done = threading.Event()
    made = SimpleNamespace(
        launch="host", built=SimpleNamespace(benchmark=lambda launch: timing.Benchmark(print, launch, done.wait))
    )
    with ThreadPoolExecutor(1) as waiting:
        subject = metering._workload(made, 8, waiting)
        passed = subject.mark()
        assert subject.images == 8 and not passed()
        done.set()
        waiting.submit(int).result()
        assert passed()


def test_others_are_marked_on_the_stream():
    made = SimpleNamespace(
        launch="eager", built=SimpleNamespace(benchmark=lambda launch: timing.Benchmark(print, launch, None))
    )
    subject = metering._workload(made, 8, None)
    assert subject.mark is None and subject.call is print


# ---- The plan


def test_what_is_metered_unless_told_otherwise():
    plan = Options()
    assert plan.backends == ("ours", "cudnn", "torch-graph", "torch-compile") and plan.batches == (1, 256)
    assert plan.precisions == ("fp32", "fp16") and plan.seconds == 10 and plan.rounds == 4
    assert Options(backends=("kernels", "xla")).backends == ("ours", "xla")
    assert Options(precisions=("tf32",)).backends_in("tf32") == ("cudnn", "torch-graph", "torch-compile")


def test_how_long_it_will_take(said):
    plan = Options(backends=("ours", "cudnn"), batches=(256,), precisions=("fp16", "tf32"))
    durations = plan.durations()
    assert durations[256, "fp16"] == (35, energy.duration(2)) and durations[256, "tf32"] == (20, energy.duration(1))
    metering.show_plan(plan, said)
    lines = text(said).splitlines()
    assert lines[0] == (
        "batch 256, fp16: ours, cudnn; 2.4 minutes of metering (4 rounds of 10 s each, and idleness),"
        " about 0.6 minutes before that to build and check"
    )
    assert lines[2] == "together about 4.8 minutes; nothing else may use the card"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backends": ("tensorflow",)}, "backend must be one of ours, cudnn, .*, got 'tensorflow'"),
        ({"precisions": ("bf16",)}, "precision must be one of fp32, tf32, fp16, int8, got 'bf16'"),
        ({"batches": (0,)}, "batch must be at least 1, got 0"),
        ({"seconds": 1}, "seconds must be at least 2, got 1"),
        ({"seconds": 9.5, "save": True}, "seconds must be at least 10 to be saved, got 9.5"),
        ({"rounds": 1}, "rounds must be at least 2, got 1"),
    ],
)
def test_plans_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)


# ---- The command


@pytest.fixture
def command(monkeypatch, invoke):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    return functools.partial(invoke, "energy")


def one_line(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def test_without_a_gpu_it_says_where_recorded_results_are(command):
    result = command()
    assert result.exit_code == 2 and one_line(result.stderr) and "06_optimize/results" in result.stderr
    assert result.stdout == ""


def test_options_reach_the_plan_and_wrong_results_are_exit_status_1(command, monkeypatch):
    plans = []
    monkeypatch.setattr(metering, "bench", lambda plan, console: plans.append(plan) or len(plans) == 1)
    assert command().exit_code == 0
    arguments = "--backend cudnn --backend ours --batch 8 --precision fp16 --seconds 20 --rounds 5 --seed 9 --save"
    result = command(*arguments.split())
    assert result.exit_code == 1 and one_line(result.stderr)
    assert plans == [
        Options(),
        Options(
            backends=("cudnn", "ours"), batches=(8,), precisions=("fp16",), seconds=20, rounds=5, seed=9, save=True
        ),
    ]


def test_wrong_options_and_a_card_that_does_not_tell_are_one_line(command, monkeypatch):
    result = command("--rounds", 1)
    assert result.exit_code == 2 and one_line(result.stderr) and "rounds must be at least 2, got 1" in result.stderr

    def refuse(plan, console):
        raise energy.Unmetered("the card has no energy counter")

    monkeypatch.setattr(metering, "bench", refuse)
    result = command()
    assert result.exit_code == 2 and result.stderr.strip() == "the card has no energy counter"


# ---- What is said of the records


def test_the_table_of_the_records(tmp_path):
    path = tmp_path / "card"
    assert tables.energy(results.load(path)) == tables.energy_ratio(results.load(path)) == tables.NOT_YET
    base = {
        "suite": "energy", "case": "mobilenetv2-1.0-224", "arithmetic": "a", "layout": "NHWC", "launch": "graph",
        "error": 1e-4, "idle_w": 120.0, "watts": 600.0, "seconds": 30.0, "rounds": 3, "images": 10**6,
        "method": "counter", "precision": "fp16", "batch": 256,
    }  # fmt: skip

    def of(name, mj, **more):
        r = base | {"implementation": name, "mj_per_image": mj, "mj_low": 0.98 * mj, "mj_high": 1.02 * mj}
        return r | {"gross_mj": 1.25 * mj} | more

    records = [of("cudnn", 6.0), of("ours", 2.5), of("torch-graph", 12.34), of("ours", 40.0, batch=1)]
    results.save(path, "r", {"card": "NVIDIA H200", "date": "2031-02-03"}, records)
    lines = tables.energy(results.load(path)).splitlines()
    assert lines[0].startswith("NVIDIA H200, 2031-02-03. Millijoules per image above idle power")
    assert lines[2:] == [
        "Errors up to 1e-2, those of fp16 in memory, or of products of TF32:",
        "",
        "|  | arithmetic | batch 1 | range | with idle power | batch 256 | range | with idle power | error |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
        "| ours | a | **40.0** | 39.2 – 40.8 | 50.0 | **2.50** | 2.45 – 2.55 | 3.12 | 1e-04 |",
        "| cuDNN, layer by layer | a | – | – | – | 6.00 | 5.88 – 6.12 | 7.50 | 1e-04 |",
        "| PyTorch, CUDA graph | a | – | – | – | 12.3 | 12.1 – 12.6 | 15.4 | 1e-04 |",
    ]
    assert tables.energy_ratio(results.load(path)) == "2.4"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("method", "guess", "method must be one of counter, power, got 'guess'"),
        ("mj_low", 5.0, "mj_low, mj_per_image and mj_high must ascend, got 5.0, 1.0, 2.0"),
        ("mj_high", None, "a record of the suite energy has no mj_high"),
        ("mj_high", "2", "mj_high must be a finite number, got '2'"),
        ("watts", 0, "watts must be a finite number above 0, got 0"),
        ("rounds", 0, "rounds must be an integer of at least 1, got 0"),
        ("error", None, "a record of the suite energy has no error"),
    ],
)
def test_wrong_records_are_refused(tmp_path, key, value, message):
    r = {
        "suite": "energy", "case": "x", "implementation": "ours", "precision": "fp16", "arithmetic": "a", "batch": 1,
        "layout": "NHWC", "launch": "graph", "error": 1e-4, "mj_per_image": 1.0, "mj_low": 0.5, "mj_high": 2.0,
        "gross_mj": 1.5, "idle_w": 120.0, "watts": 600.0, "seconds": 30.0, "rounds": 3, "images": 9, "method": "power",
    }  # fmt: skip
    environment = {"card": "NVIDIA H200", "date": "2031-02-03"}
    results.save(tmp_path / "card", "r", environment, [r])
    with pytest.raises(ValueError) as caught:
        results.save(tmp_path / "card", "s", environment, [r | {key: value}])
    assert message in str(caught.value)
