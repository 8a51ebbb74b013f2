"""Figures that prose of several chapters names are those of the records; typed_figures.toml refers to these tests."""

from common.measure.roofline import Peaks, gemm_work
from common.report import ladders, results, sections, tables

RECORDED = results.load(tables.CARD)
PEAKS = Peaks.recorded(RECORDED)


def eager(batch):
    """µs of cuDNN in fp16, launched from Python: notebook 2 of chapter 03."""
    keys = {"implementation": "cudnn", "precision": "fp16", "launch": "eager", "mode": "hot", "layout": "NHWC"}
    return results.one(RECORDED, suite="network", case=tables.NETWORK, batch=batch, **keys)["median_us"]


def test_eager_times_do_not_grow_with_the_batch():
    few = [eager(batch) for batch in (1, 8, 32)]
    assert max(few) < 1.15 * min(few) and eager(256) > 2 * max(few)


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
