"""Drawings of convolutions as matrix products: im2col, the implicit tile, the halo, tiles over a card, the epilogue."""

import pytest
import torch
from test_draw import check_words, words
from torch.nn import functional as F

from common import draw

DRAWINGS = {
    "im2col": draw.im2col,
    "implicit_tile": draw.implicit_tile,
    "halo_tile": draw.halo_tile,
    "regimes": lambda: draw.regimes({"one": (49, 960, 160), "two": (6272, 96, 576), "three": (256 * 12544, 16, 96)}),
    "epilogue": draw.epilogue,
    "epilogue without residual": lambda: draw.epilogue(residual=False),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    check_words(DRAWINGS[name]())


def test_columns_are_those_of_unfold():
    columns = F.unfold(torch.arange(16.0).reshape(1, 1, 4, 4), 3)[0]
    assert f"holds {', '.join(f'{n:.0f}' for n in columns[:, 1])}." in draw.im2col(4, 3).alt
    with pytest.raises(ValueError, match="at most 9 windows"):
        draw.im2col(side=7)


def test_a_halo_counts_the_positions_under_the_windows():
    assert "hold 1,152 numbers per channel, of which 200 are different" in draw.halo_tile(28, 128, first=14).alt
    assert "hold 9 numbers per channel, of which 9 are different" in draw.halo_tile(5, 1, first=12).alt
    with pytest.raises(ValueError, match="must lie in an image"):
        draw.halo_tile(side=5, pixels=26, first=0)


def test_tiles_are_counted_per_multiprocessor():
    alt = DRAWINGS["regimes"]().alt
    assert "in 3 tiles, 3 of 132 SMs have a tile" in alt and "100,352 tiles, 760 tiles per SM" in alt
    with pytest.raises(ValueError, match="one to three"):
        draw.regimes({})


@pytest.mark.parametrize(("residual", "passes"), [(True, 7), (False, 5)])
def test_an_epilogue_counts_the_passes_over_y(residual, passes):
    assert f"y is written or read {passes} times" in words(draw.epilogue(residual=residual))


def test_rounds_of_the_implicit_product():
    assert "72 rounds" in draw.implicit_tile(64, 576, 3136, (8, 32, 8)).alt
