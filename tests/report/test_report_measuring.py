"""The plots about measuring: every point is shown, and what cannot be drawn is said."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from common.measure.roofline import Peaks, Work, roof_us
from common.report import measuring, results, tables

RECORDED = results.load(tables.CARD)
OPERATORS = [r for r in RECORDED.suite("operators") if (r["implementation"], r["layout"]) == ("cudnn", "NHWC")]


def of(precision, batch):
    return [r for r in OPERATORS if (r["precision"], r["batch"]) == (precision, batch)]


def on_the_page(figure):
    """Whether the legend, which all of these figures have, is within the figure."""
    figure.canvas.draw()
    width, height = figure.bbox.size
    (legend,) = figure.legends
    box = legend.get_window_extent()
    return box.x0 >= 0 and box.x1 <= width and box.y0 >= -1 and box.y1 <= height


def test_no_sample_of_the_warm_up_is_cut_off():
    figure = measuring.samples([900.0, 300.0, *[100.0] * 30], 2)
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert low < 100 and high > 900 and on_the_page(figure)
    with pytest.raises(ValueError, match="more than the 2 of the warm-up, got 2"):
        measuring.samples([1.0, 2.0], 2)


def test_orders_shows_the_ratio_of_each_round():
    rounds = [("A", 10.0), ("B", 20.0), ("B", 40.0), ("A", 10.0)]
    figure = measuring.orders({"in turn": rounds, "again": rounds})
    ratios = next(line for line in figure.axes[2].lines if line.get_label() == "one round").get_ydata()
    assert list(ratios) == [0.5, 0.25] and on_the_page(figure)


def test_launch_cost_has_four_curves_in_each_panel():
    figure = measuring.launch_cost(results.find(RECORDED, suite="network", case=tables.NETWORK))
    assert [len(axes.lines) for axes in figure.axes] == [4, 4] and on_the_page(figure)


def test_every_step_has_a_dot_and_a_roof():
    figure = measuring.steps({1: of("fp16", 1), 256: of("fp16", 256)}, "fp16", Peaks.recorded(RECORDED))
    for axes in figure.axes:
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        roofs = [line for line in axes.lines if line.get_marker() == "|"]
        assert len(dots) == len(roofs) == 32
    assert on_the_page(figure)


def test_the_words_for_steps_have_every_kind_and_the_whole_range():
    peaks = Peaks.recorded(RECORDED)
    text = measuring.steps_in_words({256: of("fp16", 256)}, "fp16", peaks)
    ratios = [
        r["median_us"] / roof_us(Work(r["bytes"], r["flops"]), "fp16", peaks)
        for r in of("fp16", 256) if r["kind"] == "depthwise"
    ]  # fmt: skip
    assert f"depthwise {min(ratios):.1f} to {max(ratios):.1f}" in text
    assert all(r["kind"] in text for r in of("fp16", 256))
    one = {"kind": "stem", "bytes": 4_000_000, "flops": 0, "median_us": 3.0}
    assert "stem 3.0." in measuring.steps_in_words({1: [one]}, "fp16", Peaks(4e12, 1e13, None, 1e14))


def test_the_shares_of_the_kinds_fill_each_bar():
    figure = measuring.kinds([*of("fp32", 1), *of("fp16", 256)])
    (axes,) = figure.axes
    widths = np.array([[bar.get_width() for bar in container] for container in axes.containers])
    assert widths.shape == (7, 2) and np.allclose(widths.sum(axis=0), 100) and on_the_page(figure)


def kernel(implementation, order, start, case=None, **more):
    return {
        "suite": "timeline", "implementation": implementation, "case": f"{case or implementation}, {order:03}",
        "order": order, "kernel": "k", "kind": "expand", "start_us": start, "us": 1.0, "stream": 7, "launch": "graph",
        "launched_us": 0.0, "host_us": 2.5, **more,
    }  # fmt: skip


def test_recorded_timelines_are_lanes_in_the_order_of_their_kernels():
    records = [
        kernel("ours", 2, 8.0, "ours step by step"),
        kernel("ours", 1, 3.0, "ours step by step"),
        kernel("ours", 1, 2.0),
        kernel("torch-eager", 1, 5.0, launch="eager"),
        kernel("torch-eager", 2, 9.0, launch="eager", launched_us=4.0, kernel="elementwise_kernel<1>"),
    ]
    lanes = measuring.lanes(records)
    assert list(lanes) == ["PyTorch, eager", "ours, step by step", "ours, with all fusions"]
    assert [one.start_us for one in lanes["ours, step by step"]] == [0.0, 5.0]
    assert [one.launched_us for one in lanes["PyTorch, eager"]] == [-5.0, -1.0]
    assert [one.label for one in lanes["PyTorch, eager"]] == ["expand", "expand, bias"]
    assert lanes["ours, with all fusions"][0].launched_us is None and measuring.lanes([]) == {}
