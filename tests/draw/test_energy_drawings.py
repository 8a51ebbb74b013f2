"""Drawings of energy: a power sensor over a load in bursts, and millijoules per image."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib.text import Text
from test_draw import words

from common import draw
from common.measure.modelled_card import ModelledCard

ROW = {"mj_per_image": 2.4, "mj_low": 2.3, "mj_high": 2.5, "gross_mj": 3.0}
GROUPS = {
    ("fp32", 1): {"ours": ROW, "torch-graph": ROW | {"mj_per_image": 30.0, "mj_high": 31.0, "gross_mj": 90.0}},
    ("fp16", 1): {},
}


def bursts(start):
    card = ModelledCard()
    card.clock = start
    card.enqueue(*[(0.025, 500.0), (0.075, 0.0)] * 7)
    return card, start


DRAWINGS = {
    "sensor": lambda: draw.power_sensor({"in step": bursts(3.0), "out of step": bursts(3.05)}),
    "bars": lambda: draw.energy_bars(GROUPS),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough(name):
    drawing = DRAWINGS[name]()
    figure = drawing.figure
    figure.draw_without_rendering()
    assert len(drawing.alt) > 80
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().lstrip("−0123456789."):
            box = text.get_window_extent()
            assert text.get_fontsize() >= 9.5, text.get_text()
            assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()


def test_readings_depend_on_when_the_work_began():
    panels = DRAWINGS["sensor"]().figure.axes
    shown = [panel.lines[0].get_ydata()[-1] for panel in panels]
    assert shown == pytest.approx([600.0, 100.0])
    assert [panel.lines[1].get_ydata()[0] for panel in panels] == pytest.approx([225.0, 225.0]), "the true mean"


def test_bars_are_the_records():
    drawing = DRAWINGS["bars"]()
    panel = drawing.figure.axes[0]
    assert [bar.get_width() for bar in panel.patches] == [3.0, 2.4, 90.0, 30.0]
    assert {"ours", "PyTorch, CUDA graph", "2.40, with idle 3.00"} <= set(words(drawing))
    assert "fp32, batch 1: ours 2.40, PyTorch, CUDA graph 30.0" in drawing.alt
