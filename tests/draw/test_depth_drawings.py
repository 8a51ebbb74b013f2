"""Drawings of depthwise and Winograd convolutions: rows, halos, tiles, readers, phases, sums."""

import matplotlib

matplotlib.use("Agg")

import pytest
from test_draw import check_words, words

from common import draw

DRAWINGS = {
    "sliding_rows": draw.sliding_rows,
    "sliding_rows of 5 × 5": lambda: draw.sliding_rows(3, kernel=5),
    "halos": draw.halos,
    "one halo": lambda: draw.halos(((3, 7),), kernel=5),
    "register_tile": draw.register_tile,
    "register_tile of 4 × 2": lambda: draw.register_tile(4, 2),
    "taps": draw.taps,
    "taps of one stride": lambda: draw.taps(6, strides=(3,)),
    "phases": draw.phases,
    "phases of stride 3": lambda: draw.phases(3),
    "sum_levels": lambda: draw.sum_levels(100_352, 256, 1),
    "sum_levels of 8 blocks": lambda: draw.sum_levels(100_352, 256, 8),
    "winograd": draw.winograd,
    "winograd with 4 × 4 outputs": lambda: draw.winograd(4, 512, 512),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    check_words(DRAWINGS[name]())


def test_a_halo_costs_what_the_definition_says():
    assert draw.halo_share(8, 8) == (10 / 8) ** 2
    assert draw.halo_share(8, 32) == 10 * 34 / (8 * 32)
    assert draw.halo_share(4, 4, stride=2) == 9 * 9 / (4 * 4 * 4)
    assert draw.halo_share(28, 28, kernel=7) == 34 * 34 / (28 * 28)
    assert {"36 inputs", "16 + halo of 20"} <= set(words(draw.halos(((4, 4),))))


def test_taps_name_the_readers_of_each_pixel():
    assert "2, 3, 3, 3, 3, 3, 3, 3, 2 readers" in draw.taps().alt
    assert "1, 2, 1, 2, 1, 2, 1, 2, 1 readers" in draw.taps().alt


def test_phases_count_the_taps():
    assert "1, 2, 2, 4 taps, 9 of 36" in draw.phases().alt
    assert "9 taps, 9 of 9" in draw.phases(1).alt


def test_a_register_tile_says_its_loads_per_output():
    assert "4.00 loads per output" in draw.register_tile(2, 2).alt
    assert "2.25 loads per output" in draw.register_tile(4, 4).alt


def test_a_tree_says_its_longest_chain():
    assert "The longest chain of additions has 405" in draw.sum_levels(100_352, 256, 1).alt
    assert "8 warps → 1 per block, 8 additions, one after the other" in draw.sum_levels(100_352, 256, 1).alt
    assert "The longest chain of additions has 65" in draw.sum_levels(100_352, 256, 8).alt


@pytest.mark.parametrize(
    "call",
    [
        lambda: draw.sliding_rows(7), lambda: draw.halos(()), lambda: draw.register_tile(9, 1), lambda: draw.taps(11),
        lambda: draw.phases(4), lambda: draw.sum_levels(9, 33, 1), lambda: draw.winograd(3),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call):
    with pytest.raises(ValueError, match="got"):
        call()
