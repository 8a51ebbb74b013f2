"""Drawings of tiles, of lanes' words, of buffers and of shuffles: they say what their parameters mean."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib.text import Text
from test_draw import words

from common import draw

DRAWINGS = {
    "product_tiles": lambda: draw.product_tiles(),
    "product_tiles, small": lambda: draw.product_tiles((64, 64), 8, (32, 16), 4, lane=31),
    "lane_words": lambda: draw.lane_words({"apart": [8 * i for i in range(8)], "together": [4 * i for i in range(8)]}),
    "transposed_tile": lambda: draw.transposed_tile(),
    "transposed_tile, wide": lambda: draw.transposed_tile(12, 8, row=9),
    "buffers": lambda: draw.buffers(),
    "buffers, equal": lambda: draw.buffers(slices=6, load=2, multiply=2),
    "shuffle_tree": lambda: draw.shuffle_tree(),
    "shuffle_tree of two": lambda: draw.shuffle_tree([1, 2]),
    "halving": lambda: draw.halving(),
    "halving of two": lambda: draw.halving(16, 2),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_word_stays_on_the_canvas_and_there_is_an_alternative_text(name):
    drawing = DRAWINGS[name]()
    assert len(drawing.alt.split()) > 15
    drawing.figure.draw_without_rendering()
    page = drawing.figure.bbox.padded(1)
    for text in drawing.figure.findobj(Text):
        box = text.get_window_extent()
        inside = box.x0 >= page.x0 and box.y0 >= page.y0 and box.x1 <= page.x1 and box.y1 <= page.y1
        assert inside or not text.get_text().strip(), text.get_text()
        assert text.get_fontsize() >= 10, text.get_text()


def test_lane_words_counts_the_words_of_the_fullest_bank():
    for distance, wavefronts in ((8, 2), (4, 1), (0, 1)):
        drawing = draw.lane_words({"these": [distance * lane % 64 for lane in range(8)]})
        assert f"these: {wavefronts} wavefront{'s' if wavefronts > 1 else ''} for these 8 lanes" in drawing.alt


def test_two_buffers_hide_the_shorter_of_copy_and_products():
    assert "4 slices take 20 units" in draw.buffers().alt and ": 14 units" in draw.buffers().alt


def test_shuffles_end_with_the_sum_in_lane_0():
    assert "lane 0: the sum, 10" in words(draw.shuffle_tree([1, 2, 3, 4]))


def test_halving_leaves_one_sum_per_lane():
    assert "after 3 shuffles" in draw.halving(8, 4).alt and "0, 0, 1, 1, 2, 2, 3, 3" in draw.halving(8, 4).alt
    assert "after 1 shuffles" in draw.halving(16, 2).alt


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.product_tiles((128, 128), 8, (64, 48)), "must fill"),
        (lambda: draw.lane_words({}), "at least one"),
        (lambda: draw.lane_words({"odd": [1] * 8}), "eight multiples of 4"),
        (lambda: draw.transposed_tile(row=8), "row below rows"),
        (lambda: draw.buffers(load=4, multiply=3), "at most multiply"),
        (lambda: draw.shuffle_tree([1, 2, 3]), "2, 4, 8 or 16"),
        (lambda: draw.halving(8, 3), "power of two"),
        (lambda: draw.halving(4, 4), "more than channels"),
    ],
)
def test_bad_parameters_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
