"""Drawings of quantization: what they say is what is computed, and wrong parameters are refused."""

import pytest

from common import draw


def test_a_number_gets_the_nearest_code_ties_to_even_and_saturates():
    said = draw.number_line(0.5, -2, (1.3, 0.25, 9)).alt
    assert "1.3 gets code 1, which stands for 1.5" in said
    assert "0.25 gets code -2" in said
    assert "9 gets code 7" in said


def test_codes_used_are_relative_to_the_widest_channel():
    assert "127, 64, 1, of 127" in draw.codes_used((4, 2, 0.03)).alt


@pytest.mark.parametrize("arguments", [(0, 0, (1,)), (1, 9, (1,)), (1, 0, ())])
def test_a_line_that_cannot_be_drawn_is_refused(arguments):
    with pytest.raises(ValueError, match="expected a scale"):
        draw.number_line(*arguments)


@pytest.mark.parametrize("ranges", [(), (1, 0)])
def test_ranges_that_cannot_be_drawn_are_refused(ranges):
    with pytest.raises(ValueError, match="expected at least one"):
        draw.codes_used(ranges)


def test_chosen_ranges_name_each_end():
    said = draw.chosen_ranges([1, 2, 3], [5, 100, 0], {"minmax": 3, "mse": 2.1}).alt
    assert "minmax 3, mse 2.1" in said
    with pytest.raises(ValueError, match="as many centres as counts"):
        draw.chosen_ranges([1, 2], [5], {"minmax": 3})


def test_errors_by_layer_say_median_and_largest():
    assert "int8: median 0.2, largest 0.9" in draw.errors_by_layer({"int8": [0.1, 0.2, 0.9]}).alt
    for rows in ({}, {"a": [1], "b": [1, 2]}, {"a": []}):
        with pytest.raises(ValueError, match="expected 1 to 5 rows"):
            draw.errors_by_layer(rows)


def test_numbers_of_formats_are_those_of_e4m3():
    assert "e4m3: 127 numbers, dense near 0 and 8 in the upper half" in draw.numbers_of_formats(6.0).alt
    with pytest.raises(ValueError, match="greatest must be above 0"):
        draw.numbers_of_formats(0)


def test_a_folded_step_names_the_layers_of_the_file():
    assert "Dequantize, Conv, ReLU6, Quantize" in draw.folded_step(("Conv", "ReLU6")).alt
    with pytest.raises(ValueError, match="expected 1 to 3 layers"):
        draw.folded_step(())


def test_fragments_of_bytes():
    assert "A, 16 rows of 8 words" in draw.byte_fragments().alt
