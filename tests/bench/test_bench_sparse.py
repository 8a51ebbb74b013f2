"""The suite "sparse": what is selected, what is told, what is written; on a GPU, that it measures."""

import contextlib
import csv
import io
from pathlib import Path

import numpy as np
import pytest
from bench_models import on_gpu
from rich.console import Console
from typer.testing import CliRunner

from common import cuda
from common.__main__ import app
from common.bench import driver
from common.bench import sparse as suite
from common.measure.timing import Timing
from common.optimize import sparse
from common.optimize.sparse_activations import zeros
from common.optimize.sparse_layers import NETWORKS, Distinct, distinct
from common.report import plots, results, tables


def test_without_a_gpu_it_says_where_recorded_results_are(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    result = CliRunner().invoke(app, ["bench", "sparse"])
    assert result.exit_code == 2 and "06_optimize/results" in result.stderr


def test_options_reach_it(monkeypatch):
    given = []
    monkeypatch.setattr(suite, "bench", lambda options, console: given.append(options) or True)
    arguments = "--network resnet-50 --layer *3×3* --limit 4 --pattern pixels --no-sweep --csv t.csv --batch 2"
    assert CliRunner().invoke(app, ["bench", "sparse", *arguments.split()]).exit_code == 0
    assert given == [
        suite.Options(
            batches=(2,), networks=("resnet-50",), layer="*3×3*", limit=4, patterns=("pixels",), sweep=False,
            csv=Path("t.csv"),
        )
    ]  # fmt: skip
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        suite.Options(limit=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"networks": ("vgg",)}, "network must be one of densenet-121"),
        ({"layer": "*9×9*"}, "no convolution of .* has such a shape"),
        ({"precisions": ("tf32",)}, "precision must be one of fp32, fp16, got 'tf32'"),
        ({"patterns": ("rows",)}, "pattern must be one of elements, pixels, tiles, got 'rows'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        suite.bench(suite.Options(**options), Console(file=io.StringIO()))


def test_what_is_selected():
    everything = suite.selected(suite.Options(), 2)
    assert len(everything) == len(distinct()) and not everything[-1].after_relu
    few = suite.selected(suite.Options(networks=("resnet-50", "mobilenetv2"), layer="*3×3*", limit=3), 1)
    assert len(few) == 3 and all(one.after_relu and "3×3" in str(one.shape) for one in few)
    work = [one.count * one.shape.macs for one in few]
    assert work == sorted(work, reverse=True)


def test_what_a_layer_is_given():
    ones = distinct(NETWORKS)
    row = zeros(np.zeros((1, 4, 2, 2)), "a", "56×56 144>24 1×1", "ReLU6")
    made = suite.given_sparsity(ones, [row])
    assert made["56×56 144>24 1×1"] == (1.0, "synthetic, as many zeros as with seeded weights")
    assert made["56×56 64>64 3×3"] == (0.5, "synthetic, half zeros")
    assert made["112×112 16>96 1×1"] == (0.0, "synthetic, no zeros")


def recorded(shape="56×56 64>64 3×3", batch=1):
    """Records as the suite makes them: cuDNN at 10 µs, ballot from 40 µs down to 4."""
    times = {"cudnn": lambda level: 10.0, "sparse/ballot": lambda level: 40 * (1 - level) + 3.6,
             "sparse/dense": lambda level: 20.0, "cudnn-2nd": lambda level: 11.0, "cudnn-3rd": lambda level: 12.0,
             "ours": lambda level: 15.0}  # fmt: skip
    made = []
    for name, us in times.items():
        swept = suite.LEVELS if name in ("cudnn", "sparse/ballot", "sparse/dense") else (0.5,)
        made.append(
            results.record(
                "sparse", f"{shape}, elements", name, precision="fp32", arithmetic="fp32", batch=batch,
                timing=Timing(us(0.5), us(0.5), us(0.5), 8, 10, "graph", "hot"), error=1e-7, layout="NHWC",
                work=suite.conv2d_work((batch, 64, 56, 56), (64, 64, 3, 3), 1, 1), kind="given", label="synthetic",
                shape=shape, pattern="elements", sparsity=0.5, count=3, plan="",
                us_at={f"{level:g}": us(level) for level in swept},
            )
        )  # fmt: skip
    return made


def counted():
    return suite.counted("digits", [zeros(np.eye(4).reshape(1, 1, 4, 4), "a", "4×4 1>1 1×1", "ReLU6")], 8)


def test_a_name_tells_one_shape():
    """So the table can be made from what records call a shape."""
    names = [str(one.shape) for one in distinct()]
    assert len(set(names)) == len(names) and set(names) == set(suite._by_name())


def test_the_table_and_its_file(tmp_path):
    (line,) = suite.lines(recorded())
    assert [line[key] for key in ("B", "C", "H", "W", "N", "sparsity")] == [1, 64, 56, 56, 64, 0.5]
    assert [line[key] for key in ("t1", "t2", "t3", "t4")] == [10, 11, 12, 23.6] and line["scheme"] == "ballot"
    assert line["dense"] == 20 and line["break_even"] == pytest.approx(0.84)
    suite.write_csv([*recorded(), *recorded(batch=2), *counted()], tmp_path / "t.csv")
    with open(tmp_path / "t.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == suite.COLUMNS and [row["B"] for row in rows] == ["1", "2"] and rows[0]["t4"] == "23.6"


def test_what_is_told_at_the_end():
    console = Console(file=io.StringIO(), width=200)
    suite.conclude([*recorded(), *counted()], suite.Options(), console)
    told = console.file.getvalue()
    assert "digits" in told and "trained" in told and "75.0%" in told
    assert "resnet-50: no gain" in told and "22 shapes were not measured" in told


def test_records_can_be_saved_and_shown(tmp_path):
    path = tmp_path / "card"
    environment = {"card": "NVIDIA H200", "date": "2025-01-01", "driver": "1", "cuda": "12", "commit": "abc"}
    records = [*recorded(), *counted()]
    results.save(path, "run", environment, records)
    content = results.load(path)
    assert len(content.records) == len(records)
    assert "| fp32 | elements | 1 | 1 | 1 (84%) | 1 (84%) |" in tables.sparse_break_even(content)
    for draw, some in ((plots.sparse, recorded()), (plots.zeros, counted())):
        draw(some).savefig(tmp_path / "plot.svg")
        with pytest.raises(ValueError, match="records must"):
            draw([])
    for broken in ({"kind": None}, {"pattern": None}, {"label": None}, {"us_at": None}):
        with pytest.raises(ValueError, match="has no"):
            results.save(path, "run", environment, [recorded()[0] | broken])


def test_a_run_is_kept_bit_by_bit_and_a_layer_that_fails_costs_no_other(monkeypatch):
    class Keeper:
        name, path = "run", "file"

        def __init__(self, suite, watch, folder):
            self.saved = kept

        def save(self, records, superseded, more):
            self.saved.append(list(records))

    def timed(one, precision, given, label, options, console):
        order.append(str(one.shape))
        if len(order) == 12:
            raise MemoryError("too large")
        return recorded(str(one.shape)), True

    kept, order = [], []
    for name, stub in {
        "time_layer": timed, "activations": lambda source: [], "compile_ahead": lambda *arguments: []
    }.items():  # fmt: skip
        monkeypatch.setattr(suite, name, stub)
    monkeypatch.setattr(driver, "Run", Keeper)
    monkeypatch.setattr(driver, "Watch", contextlib.nullcontext)
    monkeypatch.setattr(suite, "on_stream", contextlib.nullcontext)
    said = Console(file=io.StringIO(), width=200)
    options = suite.Options(networks=("resnet-50",), batches=(1,), precisions=("fp32",), limit=13, save=True)
    assert not suite.bench(options, said)
    assert "fails: too large" in said.file.getvalue() and len(order) == 13
    shapes = [list(dict.fromkeys(r["shape"] for r in records)) for records in kept]
    assert shapes == [[], order[:10], [order[10], order[12]]]


def test_what_multiplies_is_told():
    assert "tf32" in suite.arithmetic_of("sparse/tiles", "fp32").lower()
    assert suite.arithmetic_of("sparse/ballot", "fp32") == suite.arithmetic_of("cudnn", "fp32")
    assert suite.arithmetic_of("sparse/pixels", "fp16") != suite.arithmetic_of("cudnn", "fp16")


def test_zeros_of_every_source():
    assert len(suite.activations("digits", 1)) == 52
    assert {row.after for row in suite.activations("resnet20")} >= {"input", "ReLU"}
    with pytest.raises(ValueError, match="source must be one of digits, seeded, resnet20, got 'imagenet'"):
        suite.activations("imagenet")


@on_gpu
@pytest.mark.parametrize("precision", suite.DTYPES)
def test_it_measures(precision):
    options = suite.Options(networks=("mobilenetv2",), layer="7×7*320*", samples=6)
    (one,) = suite.selected(suite.Options(networks=("mobilenetv2",), layer="7×7 960>320*"), 1)
    records, right = suite.time_layer(one, precision, 0.3, "synthetic", options, Console())
    assert right and {r["sparsity"] for r in records} == {0.3}
    assert {float(level) for r in records for level in r["us_at"]} == {*suite.LEVELS, 0.3}
    (line,) = suite.lines(records)
    assert line["t1"] <= 1.5 * line["t2"] and line["t4"] > 0
    assert suite.compile_ahead([one], [precision], 132) == [None] * len(sparse.SCHEMES)


@pytest.mark.skipif(cuda.backend() == "gpu", reason="on a GPU everything is timed")
@pytest.mark.parametrize("precision", suite.DTYPES)
def test_a_layer_without_a_gpu(precision, monkeypatch):
    """All but cuDNN computes, at every sparsity what it should; with times made up here, the records are whole."""
    monkeypatch.setattr(suite, "fastest_plans", lambda convolution, most: [])
    asked = []

    def compare(launches, samples):
        asked.append(list(launches))
        return {name: Timing(i + 1.0, i + 1.0, i + 1.0, samples, 10, "graph", "hot") for i, name in enumerate(launches)}

    monkeypatch.setattr(suite.timing, "compare", compare)
    shape = sparse.Shape(1, 40, 7, 7, 36, (3, 3), (1, 1), ((1, 1), (1, 1)))
    one = Distinct(shape, {"resnet-50": 3}, True)
    console = Console(file=io.StringIO())
    options = suite.Options(patterns=("elements", "tiles"))
    records, right = suite.time_layer(one, precision, 0.3, "synthetic, half zeros", options, console)
    assert right, console.file.getvalue()
    schemes = [f"sparse/{scheme}" for scheme in sparse.SCHEMES]
    assert len(asked) == 2 * (len(suite.LEVELS) + 1) and ["ours", *schemes] in asked and schemes in asked
    given = [r for r in records if r["kind"] == "given"]
    assert {r["sparsity"] for r in records} == {0.3} and given[0]["label"] == "synthetic, half zeros"
    assert [len(r["us_at"]) for r in records if r["implementation"] == "sparse/tiles"] == [len(suite.LEVELS) + 1] * 2
    assert {len(r["us_at"]) for r in records if r["implementation"] == "ours"} == {1}
    for r in records:
        assert not results._complaints(r), r

    def broken(self, scheme, packed, out):
        out[...] = 1.0

    monkeypatch.setattr(suite.Layer, "_sparse", broken)
    monkeypatch.setattr(suite, "LEVELS", ())
    records, right = suite.time_layer(one, precision, 0.3, "synthetic", options, console)
    assert not right and {r["implementation"] for r in records} == {"ours"} and "wrong" in console.file.getvalue()
