"""How times grow with the batch, read from records."""

import math

import pytest

from common.report import batches, plots, results, tables
from common.report.results import Results


def network(implementation, batch, us, **more):
    return {
        "suite": "network", "case": tables.NETWORK, "implementation": implementation, "precision": "fp16",
        "batch": batch, "mode": "hot", "median_us": us, **more,
    }  # fmt: skip


def layer(case, batch, us, **more):
    return {
        "suite": "operators", "case": case, "implementation": "ours", "precision": "fp16", "layout": "NHWC",
        "batch": batch, "median_us": us, **more,
    }  # fmt: skip


RECORDS = Results(
    records=[
        network("ours", 1, 50.0), network("ours", 1, 40.0, layout="NHWC"), network("ours", 1, 5.0, mode="rotating"),
        network("ours", 8, 100.0), network("cudnn", 256, 1000.0),
        layer("stem", 1, 2.0), layer("stem", 256, 128.0), layer("head", 1, 2.0), layer("pool", 256, 9.0),
        layer("stem", 1, 0.5, layout="NCHW"),
    ]
)  # fmt: skip


def test_the_fastest_hot_record():
    assert batches.fastest(RECORDS, "ours", "fp16", 1)["median_us"] == 40.0
    assert batches.fastest(RECORDS, "ours", "fp32", 1) is None
    assert batches.fastest(RECORDS, "ours", "fp16", 1, "another case") is None


def test_pictures_per_second_of_what_is_recorded():
    assert batches.rates(RECORDS, "ours", "fp16") == {1: pytest.approx(25_000), 8: pytest.approx(80_000)}


def test_how_much_cheaper_a_picture_is():
    assert batches.gains(RECORDS, "fp16", 1, 256) == {"stem": (2.0, 128.0, 4.0)}


def test_no_line_is_drawn_across_what_was_not_measured(monkeypatch):
    said = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: said.append((figure, alt)))
    batches.draw_rates(RECORDS)
    [(figure, alt)] = said
    ours = figure.axes[1].lines[0].get_ydata()
    assert ours[0] == pytest.approx(25_000) and math.isnan(ours[2]) and "fp16 ours 25,000, 80,000" in alt
    batches.draw_rates(results.load(tables.CARD))
    assert "fp32 XLA (JAX)" in said[1][1]
