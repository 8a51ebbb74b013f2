"""Drawings of a network's layers and numbers: folding, sizes of weights, headroom, sums, channels."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgba
from test_draw import check_words, words

from common import draw, topology
from common.optimize.generate import Block, Geometry, Tile
from common.report.plots import COLOURS

EARLY = Block(56, 56, 24, 144, 24, residual=True)
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
    "fused_tile": lambda: draw.fused_tile(EARLY, Tile(14, 14, slice=48, warps=3, strip=7, vector=0)),
    "split_channels": lambda: draw.split_channels(960, 64, 4),
    "fused_pair": lambda: draw.fused_pair(3 * 64 * 64 * 4, 16 * 32 * 32 * 4),
    "neighbours": lambda: draw.neighbours([("A", ["conv 1×1", "add", "hard-swish"], 0), ("B", ["depthwise"], None)]),
    "placement": lambda: draw.placement([False, True, False, True], [[-1], [0], [1, 0], [2]]),
    "channel_spreads": lambda: draw.channel_spreads({"one": [("expand", 2.0), ("depthwise", 31.9)]}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    check_words(DRAWINGS[name]())


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


def test_a_fused_pair_saves_what_lies_between():
    drawing = draw.fused_pair(49152, 65536)
    assert "245,760 bytes are moved" in drawing.alt and "114,688 bytes are moved" in drawing.alt
    with pytest.raises(ValueError, match="written must be a whole number of 1 or more, got 0"):
        draw.fused_pair(1, 0)


def test_a_chain_names_the_output_that_is_read_twice():
    drawing = draw.neighbours([("A", ["conv", "hard-swish"], None), ("B", ["conv", "ReLU", "hard-swish"], 0)])
    assert drawing.alt.endswith(
        "A: conv, then hard-swish. B: conv, then ReLU, then hard-swish, and another layer reads the output of its"
        " conv, too."
    )
    with pytest.raises(ValueError, match="row 'A' has no layer 2"):
        draw.neighbours([("A", ["conv"], 2)])


def test_copies_of_a_placement_are_drawn_where_a_tensor_is_missing():
    """The block's input is on both sides once it was copied: its second reader needs no further copy."""
    drawing = draw.placement([False, True, False], [[-1], [0], [1, 0]])
    assert drawing.alt.endswith("are 2 copies: from step 0 to step 1; from step 1 to step 2.")
    assert (
        "are 2 copies: from the input to step 0; from step 1 to the output."
        in draw.placement([True, True], [[-1], [0]]).alt
    )
    with pytest.raises(ValueError, match="reads must list"):
        draw.placement([True], [[0]])


def test_a_fused_tile_has_the_sizes_of_its_geometry():
    tile = Tile(14, 14, slice=48, warps=3, strip=7, vector=0)
    geometry = Geometry(EARLY, tile, 2)
    alt = draw.fused_tile(EARLY, tile).alt
    assert "16 × 16" in alt and f"hidden, 48 of 144 channels, {geometry.hidden_bytes / 1024:.1f} KiB" in alt
    assert "3 slices" in alt
    whole = draw.fused_tile(EARLY, Tile(56, 56, slice=48)).alt
    assert "with its halo it has 56 × 56" in whole  # the image has no neighbours
    with pytest.raises(ValueError, match="must lie in 56×56"):
        draw.fused_tile(EARLY, Tile(57, 4))
    with pytest.raises(ValueError, match="must lie in 56×56"):
        draw.fused_tile(EARLY, Tile(56, 56, images=2))


def test_a_cluster_splits_the_slices():
    assert "up to 4 of 15 slices" in draw.split_channels(960, 64, 4).alt
    with pytest.raises(ValueError, match="split"):
        draw.split_channels(960, 64, 0)
