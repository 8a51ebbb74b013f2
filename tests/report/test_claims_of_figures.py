"""Figures that prose of several chapters names are those of the records; typed_figures.toml refers to these tests."""

import itertools
import json
import math

import pytest

from common.measure.roofline import Peaks, gemm_work
from common.optimize import tiles
from common.report import ladders, layouts, results, sections, tables

RECORDED = results.load(tables.CARD)
PEAKS = Peaks.recorded(RECORDED)


def eager(batch):
    """µs of cuDNN in fp16, launched from Python: notebook 2 of chapter 03."""
    keys = {"implementation": "cudnn", "precision": "fp16", "launch": "eager", "mode": "hot", "layout": "NHWC"}
    return results.one(RECORDED, suite="network", case=tables.NETWORK, batch=batch, **keys)["median_us"]


def test_eager_times_do_not_grow_with_the_batch():
    few = [eager(batch) for batch in (1, 8)]
    assert max(few) < 1.15 * min(few) and eager(256) > 2 * max(few)


def test_the_eager_times_of_one_line_mix_runs_and_those_at_batch_32_are_of_two_gpus_at_once():
    keys = {"implementation": "cudnn", "precision": "fp16", "launch": "eager", "mode": "hot", "layout": "NHWC"}
    of = {b: results.one(RECORDED, suite="network", case=tables.NETWORK, batch=b, **keys) for b in tables.BATCHES}
    assert len({r["run"] for r in of.values()}) > 1 and len({r["previous_run"] for r in of.values()}) > 1
    changes = {b: abs(math.log(r["median_us"] / r["previous_median_us"])) for b, r in of.items()}
    assert max(changes, key=changes.__getitem__) == 32
    runs = [RECORDED.runs[of[32][key]] for key in ("run", "previous_run")]
    assert runs[0]["uuid"] != runs[1]["uuid"] and runs[0]["date"] == runs[1]["date"]
    assert min(of[32]["median_us"], of[32]["previous_median_us"]) > 1.2 * of[8]["median_us"]
    graph = results.one(RECORDED, suite="network", case=tables.NETWORK, batch=32, **keys | {"launch": "graph"})
    assert graph["median_us"] < of[32]["previous_median_us"]


def test_eager_pytorch_takes_more_than_forty_times_as_long_as_ours():
    found = tables.network_times(RECORDED, "fp16", 1)
    assert max(found, key=found.__getitem__) == "torch-eager" and 40 < found["torch-eager"] / found["ours"] < 50


def test_the_times_of_two_rungs_of_add():
    case = "add 56×56 24"
    (record,) = results.find(
        RECORDED, suite="kernels", case=case, implementation="grid_stride", batch=256, precision="fp32"
    )
    assert round(ladders.us(case, "grid_stride", 256, "fp32")) == 66
    assert round(record["bytes"] / PEAKS.copy_bytes_per_s * 1e6) == 54


def test_bytes_and_products_of_a_wide_layer_take_similar_times():
    work = gemm_work(50_176, 32, 192)
    assert f"{work.bytes / PEAKS.copy_bytes_per_s * 1e6:.1f}" == "10.5"
    assert f"{work.flops / PEAKS.flops_per_s('fp32') * 1e6:.1f}" == "9.4"


def test_shares_that_the_text_on_the_profiler_names():
    shared = sections.of("gemm", "shared_tiles")
    assert f"{shared['compute_throughput']:.1f} {shared['issue']:.0%}" == "0.7 41%"


def test_the_shortest_step_takes_one_to_two_microseconds():
    steps = results.find(RECORDED, suite="operators", batch=1)
    assert 1 <= min(r["median_us"] for r in steps if r["implementation"] == "ours") <= 2
    added = [r["median_us"] for r in steps if r["implementation"] == "ours" and r["kind"] == "add"]
    assert not added or 1.4 < min(added) < 2.6


def test_whose_kernels_are_the_fastest_1x1_convolutions():
    """Notebook 2 of chapter 06: for most of them cuDNN's, but in fp32 and NHWC all are ours, on tensor cores."""
    for precision, layout in (("fp32", "NCHW"), ("fp16", "NCHW"), ("fp16", "NHWC")):
        found = _fastest(precision, layout)
        assert 2 * found.count("cudnn") > len(found)
    assert "cudnn" not in _fastest("fp32", "NHWC") and not {"naive", "tiled"} & set(_fastest("fp32", "NHWC"))


def _fastest(precision, layout):
    best = {}
    for r in results.find(RECORDED, suite="kernels", batch=32, precision=precision, layout=layout):
        if r["operator"] in layouts.OPERATORS and r["kind"] in ("expand", "project", "head"):
            best[r["case"]] = min(r, best.get(r["case"], r), key=lambda one: one["median_us"])
    return [r["implementation"] for r in best.values()]


@pytest.mark.parametrize(("precision", "batch"), list(itertools.product(["fp32", "fp16"], [1, 32])))
def test_the_chain_is_of_one_run_and_its_fastest_rung_near_the_engine_of_the_tables(precision, batch):
    """Chapter 06's page, notebooks 3, 6 and 9; its engine is an earlier one, at most a quarter slower."""
    chain = results.find(RECORDED, suite="network", case=f"{tables.NETWORK}, chain", precision=precision, batch=batch)
    now = tables.network_times(RECORDED, precision, batch)["ours"]
    assert len({r["run"] for r in chain}) == 1
    assert 0.98 < min(r["median_us"] for r in chain) / now < 1.25


def test_one_two_and_four_small_images_fill_64_rows_alike():
    """Notebook 7 of chapter 06: of the tile that was found for the late block, and wgmma's rows."""
    shares = {images * 49 / (64 * math.ceil(images * 49 / 64)) for images in (1, 2, 4)}
    found = json.loads(tiles.SHIPPED.read_text(encoding="utf-8"))["found"]["float16"]
    assert len(shares) == 1 and found["7×7 160>960>160 +residual"]["256"]["tile"]["warpgroups"]


def test_of_the_energies_only_the_engines_and_two_peers_in_fp16_at_batch_256_are_new():
    """Notebook 11 of chapter 06, section 5: which energies are of an earlier day."""
    metered = results.find(RECORDED, suite="energy", case=tables.NETWORK)
    rows = [r for r in metered if r["precision"] in ("fp32", "fp16")]
    newest = max(r["run"][:10] for r in rows)
    new = {(r["precision"], r["batch"], r["implementation"]) for r in rows if r["run"][:10] == newest}
    assert new == {("fp16", 256, name) for name in ("ours", "cudnn", "torch-graph")}
    old = {(r["precision"], r["batch"], r["implementation"]) for r in rows if r["run"][:10] != newest}
    assert {case for case in old if case[:2] == ("fp16", 256)} == {("fp16", 256, "torch-compile")}


def test_at_batch_1_twice_the_bytes_add_little_to_the_way_from_host_to_host():
    """Notebook 7 of chapter 06, section 6."""
    keys = {"suite": "network", "implementation": "ours", "batch": 1}
    more = []
    for precision in ("fp16", "fp32"):
        card = results.one(RECORDED, case=tables.NETWORK, mode="rotating", precision=precision, **keys)
        host = results.one(RECORDED, case=f"{tables.NETWORK}, host to host", precision=precision, **keys)
        more.append(host["median_us"] - card["median_us"])
    assert 1 < more[1] / more[0] < 1.25
