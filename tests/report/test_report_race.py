"""Our steps beside cuDNN's: the faster layout counts, every layer weighs the same; the recorded network."""

from types import SimpleNamespace

import matplotlib
import pytest

matplotlib.use("Agg")

from report_records import network, saved

from common.measure.roofline import ARITHMETIC
from common.report import plots, race, results, tables

RECORDED = results.load(tables.CARD)


def step(side, case, us, layout="NHWC", **more):
    return {
        "suite": "operators", "implementation": side, "precision": "fp16", "batch": 1, "case": case, "layout": layout,
        "median_us": us, "kind": case.split()[0], "count": 1, **more,
    }  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """Results with two steps: a pointwise one, of which cuDNN has two layouts, and three like a depthwise one."""
    records = [
        step("ours", "expand a", 2.0), step("cudnn", "expand a", 16.0), step("cudnn", "expand a", 8.0, "NCHW"),
        step("ours", "depthwise b", 4.0, count=3), step("cudnn", "depthwise b", 2.0, count=3),
    ]  # fmt: skip

    def find(recorded, **keys):
        return [r for r in records if all(r.get(key) == value for key, value in keys.items())]

    monkeypatch.setattr(results, "find", find)
    return SimpleNamespace()


def test_the_faster_layout_counts_and_every_layer_weighs_the_same(made):
    assert race.ratios(made, "fp16", 1) == [("expand", 1, 4.0), ("depthwise", 3, 0.5)]
    assert race.ahead(made, "fp16", 1) == 1
    assert race.speed_up(made, "fp16", 1) == pytest.approx((4 * 0.5**3) ** (1 / 4))
    assert race.speed_up(made, "fp16", 1, "depthwise") == pytest.approx(0.5)
    assert race.steps(made, "cudnn", "fp16", 1, layout="NHWC")["expand a"]["median_us"] == 16.0


def test_the_whole_beside_the_sum_is_the_largest_difference_up_or_down(monkeypatch):
    rows = [
        SimpleNamespace(batch=batch, ratios=ratios)
        for batch, ratios in [(1, {"cudnn": 1.3}), (32, {"ours": 1.02, "cudnn": 1.2}), (256, {"ours": 0.93})]
    ]
    monkeypatch.setattr(race, "sums", lambda recorded: rows)
    assert race.whole_beside_sum(SimpleNamespace()) == "7 %"
    assert race.whole_over_sum(SimpleNamespace()) == "30 %"


def test_whether_both_times_are_of_one_process_is_said(made, monkeypatch):
    assert race.processes(made).startswith("The two times of each step are of different processes")
    ratio = {"cudnn": {"to": "cudnn NHWC", "median": 0.5, "low": 0.49, "high": 0.51}}
    together = [step(side, "expand a", 2.0, run="r", ratios=ratio) for side in race.SIDES]
    apart = [step("ours", "depthwise b", 4.0, run="r"), step("cudnn", "depthwise b", 2.0, run="old")]

    def of(records):
        found = lambda recorded, **keys: [r for r in records if all(r.get(k) == v for k, v in keys.items())]  # noqa: E731
        monkeypatch.setattr(results, "find", found)
        return race.processes(made)

    assert of(together) == "Both times of each step were taken in turn, in one process."
    assert of(together + apart).startswith("In 1 of 2 steps the times are of different processes")


def test_what_is_not_there_is_named(made):
    with pytest.raises(ValueError, match="side must be one of ours, cudnn, got 'mine'"):
        race.steps(made, "mine", "fp16", 1)
    with pytest.raises(ValueError, match="kind must be one of"):
        race.speed_up(made, "fp16", 1, "stem")


def test_all_layers_of_the_network_are_recorded():
    for precision in race.PRECISIONS:
        for batch in race.BATCHES:
            found = race.ratios(RECORDED, precision, batch)
            assert sum(count for _, count, _ in found) == 54 and all(ratio > 0 for *_, ratio in found)


def test_the_sums_are_in_the_layout_of_the_whole_network():
    rows = race.sums(RECORDED)
    assert [(row.precision, row.batch) for row in rows] == [(p, b) for p in race.PRECISIONS for b in race.BATCHES]
    assert all(0.9 < ratio < 1.2 for row in rows for ratio in row.ratios.values())
    assert [(row.precision, side) for row in rows for side in row.other] == [("fp32", "ours")] * 3
    (_, own), *others = race.peers(RECORDED)
    assert own == [1.0] * 6 and all(ratio is None or ratio > 1 for _, ratios in others for ratio in ratios)


def test_in_fp32_cudnn_has_two_kernels_for_most_1x1_layers():
    """Chapter 05, notebook 5, section 1."""
    for batch in race.BATCHES:
        of_1x1 = [
            record for record in race.steps(RECORDED, "cudnn", "fp32", batch).values()
            if record["kind"] in ("expand", "project", "head")
        ]  # fmt: skip
        two = sum(record["count"] for record in of_1x1 if "cuBLAS | " in record["plan"])
        assert 2 * two > sum(record["count"] for record in of_1x1) == 34


def test_the_drawing_says_each_ratio(monkeypatch):
    shown = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: shown.append((figure, alt)))
    race.draw(RECORDED)
    ((figure, alt),) = shown
    assert len(figure.axes) == 2 and f"pool {race.speed_up(RECORDED, 'fp16', 256, 'pool'):.2f}" in alt
    for panel, precision in zip(figure.axes, race.PRECISIONS, strict=True):  # no dot is cut off
        low, high = panel.get_xlim()
        for batch in race.BATCHES:
            for kind in race.kinds(RECORDED):
                assert low < race.speed_up(RECORDED, precision, batch, kind) < high


def test_the_terms_of_the_whole_networks_are_those_of_the_records(tmp_path):
    steps = {"case": race.STEP_BY_STEP}
    exact = {"error": 3e-6, "arithmetic": ARITHMETIC["3xfp16"]}
    ours = [
        network("ours", 140.0, "fp32", **exact) | steps,
        network("ours", 120.0, arithmetic=ARITHMETIC["fp16"]) | steps,
    ]
    libraries = [
        network("cudnn", 350.0, "fp32", error=1e-6, arithmetic="fp32"),
        network("cudnn", 180.0, error=4e-3, arithmetic=ARITHMETIC["fp16"]),
    ]
    together = race.terms(results.load(saved(tmp_path / "a", [*ours, *libraries])))
    assert together.splitlines() == [
        "fp32: the engine multiplies in 3×fp16, the others in fp32; errors up to 3e-06",
        "fp16: the engine multiplies in fp16, the others in fp16; errors up to 4e-03",
        "–: not measured",
    ]
    apart = race.terms(results.load(saved(tmp_path / "b", ours, libraries)))
    assert apart.endswith("Columns are of several processes, so these are ratios of medians; –: not measured")
