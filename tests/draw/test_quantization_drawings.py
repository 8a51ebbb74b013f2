"""Drawings of quantization: what they say is what is computed, and wrong parameters are refused."""

import pytest

from common import draw


def test_a_number_gets_the_nearest_code_ties_to_even_and_saturates():
    said = draw.number_line(0.5, -2, (1.3, 0.25, 9)).alt
    assert "1.3 gets code 1, which stands for 1.5" in said
    assert "0.25 gets code -2" in said
    assert "9 gets code 7" in said


def test_codes_used_are_relative_to_the_widest_channel():
    assert "127, 64, 1 of 127" in draw.codes_used((4, 2, 0.03)).alt


@pytest.mark.parametrize("arguments", [(0, 0, (1,)), (1, 9, (1,)), (1, 0, ())])
def test_a_line_that_cannot_be_drawn_is_refused(arguments):
    with pytest.raises(ValueError, match="expected a scale"):
        draw.number_line(*arguments)


@pytest.mark.parametrize("ranges", [(), (1, 0)])
def test_ranges_that_cannot_be_drawn_are_refused(ranges):
    with pytest.raises(ValueError, match="expected at least one"):
        draw.codes_used(ranges)
