"""Drawings of a network's layers and numbers: folding, sizes of weights, headroom, sums, channels."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgba
from matplotlib.text import Text
from test_draw import words

from common import draw, topology
from common.report.plots import COLOURS

LAYERS = list(topology.build(batch_norm=True))
END = next(k for k, layer in enumerate(LAYERS) if isinstance(layer, topology.ResidualAdd))
BLOCK = LAYERS[END - 8 : END + 1]
RANDOM = np.random.default_rng(1)
KINDS = ["stem", "depthwise", "project", "expand", "head", "linear"]

DRAWINGS = {
    "folding": lambda: draw.folding(BLOCK),
    "folding of the stem": lambda: draw.folding(LAYERS[:3]),
    "weight_sizes": lambda: draw.weight_sizes({"one": [(kind, RANDOM.normal(size=(8, 9))) for kind in KINDS]}),
    "headroom": lambda: draw.headroom({"one": {"ReLU6": 6.0, "residual add": 13.8}, "two": {"other": 20.8}}),
    "accumulators": lambda: draw.accumulators(
        [8, 16, 32], {"short": [1e-3, 2e-3, 4e-3], "long": [2e-4] * 3}, 2e-3, {"depthwise": 9}
    ),
    "channel_spreads": lambda: draw.channel_spreads({"one": [("expand", 2.0), ("depthwise", 31.9)]}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    drawing = DRAWINGS[name]()
    figure = drawing.figure
    figure.canvas.draw()
    assert len(drawing.alt) > 80
    for text in [*figure.axes[0].texts, *figure.findobj(Text)]:
        if text.get_text() and text.get_visible() and text in figure.axes[0].texts:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width, text.get_text()
            assert box.y0 >= 0 and box.y1 <= figure.bbox.height, text.get_text()
            assert text.get_fontsize() >= 10, text.get_text()


def test_folding_counts_layers_and_parameters():
    unfolded, folded = draw.folding(BLOCK), "9 layers → 6, 9,456 parameters → 8,520"
    assert folded in unfolded.alt
    shown = words(unfolded)
    assert shown.count("batch-norm") == 3 and shown.count("ReLU6") == 4 and shown.count("s, t") == 3
    assert {"3,456", "3,600"} <= set(shown)  # the expand layer without and with its bias


def test_a_layer_keeps_its_colour():
    colours = [patch.get_edgecolor() for patch in draw.folding(BLOCK).figure.axes[0].patches]
    for kind in ("expand", "depthwise", "project", "add"):
        assert any(same_color(colour, to_rgba(COLOURS[kind])) for colour in colours)


@pytest.mark.parametrize("layers", [[], BLOCK[1:], BLOCK * 2, [BLOCK[0], BLOCK[2], BLOCK[1]]])
def test_layers_that_cannot_be_drawn_are_refused(layers):
    with pytest.raises(ValueError, match=r"layers must be 1 to 10|a batch-norm must stand after a convolution"):
        draw.folding(layers)


def test_headroom_is_the_limit_over_the_largest():
    shown = words(DRAWINGS["headroom"]())
    assert "largest 13.8, headroom ×4,747" in shown
