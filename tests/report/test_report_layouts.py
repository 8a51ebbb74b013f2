"""NCHW beside NHWC, read from records."""

import pytest

from common.report import layouts, plots, results, tables
from common.report.results import Results


def kernel(case, layout, us, rung="naive", operator="pointwise"):
    return {
        "suite": "kernels", "precision": "fp32", "batch": 32, "operator": operator, "case": case,
        "implementation": rung, "layout": layout, "median_us": us,
    }  # fmt: skip


RECORDS = Results(
    records=[
        kernel("stem a", "NCHW", 8.0), kernel("stem a", "NCHW", 4.0, "conv2d/tiled"), kernel("stem a", "NHWC", 2.0),
        kernel("head b", "NCHW", 3.0), kernel("head b", "NHWC", 5.0), kernel("head b", "NHWC", 6.0, "tiled"),
        kernel("head b", "NCHW", 1.0, "halo", "conv2d"), kernel("head b", "NHWC", 9.0, "halo", "conv2d"),
        kernel("head c", "NCHW", 1.0),
    ]
)  # fmt: skip


def test_the_shortest_times_where_both_layouts_are_recorded():
    assert layouts.in_both(RECORDS, "fp32", 32) == {
        ("pointwise", "stem a"): (4.0, 2.0), ("pointwise", "head b"): (3.0, 5.0), ("conv2d", "head b"): (1.0, 9.0)
    }  # fmt: skip
    assert layouts.in_both(RECORDS, "fp32", 32, "naive", ("pointwise",))["pointwise", "stem a"] == (8.0, 2.0)
    assert layouts.in_both(RECORDS, "fp16", 32) == {}


def test_a_layer_has_the_best_of_all_operators():
    assert layouts.layers(RECORDS, "fp32", 32) == {"stem a": (4.0, 2.0), "head b": (1.0, 5.0)}


def test_the_cards_records_can_be_drawn(monkeypatch):
    said = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: said.append((figure, alt)))
    recorded = results.load(tables.CARD)
    cases = [case for case in layouts.layers(recorded, "fp16", 32) if case.split()[0] in plots.COLOURS]
    layouts.draw(recorded, cases, 32)
    [(figure, alt)] = said
    panel = figure.axes[1]
    nchw, nhwc = layouts.layers(recorded, "fp16", 32)[cases[0]]
    assert panel.lines[0].get_ydata()[0] == pytest.approx(nchw / nhwc)
    assert "fp16 depthwise" in alt


def test_most_products_in_nchw_and_fp32_are_fastest_as_a_convolution_on_tensor_cores():
    recorded, fastest = results.load(tables.CARD), {}
    for r in results.find(recorded, suite="kernels", precision="fp32", batch=32, layout="NCHW"):
        if r["case"].split()[0] in ("expand", "project", "head") and r["implementation"] != "cudnn":
            fastest[r["case"]] = min(fastest.get(r["case"], r), r, key=lambda one: one["median_us"])
    rungs = [r["implementation"] for r in fastest.values()]
    assert rungs.count("conv2d/tensor_cores") > len(rungs) / 2


def test_cudnn_loses_some_layers():
    losses, of = layouts.cudnn_losses(results.load(tables.CARD), "fp32", 1)
    assert 0 < len(losses) < of and all(nhwc["median_us"] > nchw["median_us"] for nchw, nhwc in losses)
    assert all(nchw["case"] == nhwc["case"] for nchw, nhwc in losses)


def test_networks_of_both_layouts():
    for (name, precision, _), (nchw, nhwc) in layouts.networks(results.load(tables.CARD)).items():
        assert name in tables.IMPLEMENTATIONS and precision in tables.PRECISIONS and nchw > 0 < nhwc
