"""Drawings of floating-point formats: their numbers are NumPy's and PyTorch's, and bad parameters are named."""

import math

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from test_draw import words

from common import draw
from common.draw.floats import FORMATS, encoded

RANDOM = np.random.default_rng(7)
VALUES = [
    0.0, -0.0, 1.0, -2.5, 0.1, 65504.0, 65519.9, 65520.0, 2.0**-14, 2.0**-24, 2.0**-25, 2.0**-25 * 1.01, 1 - 2.0**-12,
    2048.5, 2049.0, 3e38, 1e-45, *(RANDOM.normal(size=200) * 10.0 ** RANDOM.integers(-9, 9, 200)).tolist(),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_numbers_are_encoded_as_by_numpy_and_pytorch(value):
    with np.errstate(over="ignore"):
        half, single = np.float16(value), np.float32(value)
    for name, bits, stored in (
        ("fp16", int(half.view(np.uint16)), float(half)),
        ("fp32", int(single.view(np.uint32)), float(single)),
    ):
        exponent, fraction = FORMATS[name]
        found = encoded(value, name)
        assert found.sign << exponent + fraction | found.exponent << fraction | found.fraction == bits
        assert found.value == stored and math.copysign(1, found.value) == math.copysign(1, stored)
    # from float32, so that both round once
    assert encoded(float(single), "bf16").value == float(torch.tensor(single).bfloat16())


def test_tf32_keeps_ten_fraction_bits():
    assert encoded(1 + 2**-10, "tf32").value == 1 + 2**-10
    assert encoded(1 + 2**-11, "tf32").value == 1  # a tie goes to the even one
    assert encoded(1e38, "tf32").value == pytest.approx(1e38, rel=2**-11)


def test_the_fields_are_drawn_bit_by_bit():
    shown = words(draw.float_bits(-0.15625, ("fp16",)))  # -1.25 · 2^-3
    assert "".join(text for text in shown if text in "01") == "1" + f"{12:05b}" + f"{256:010b}"
    assert "stores -0.15625: exact" in shown


def test_each_binade_has_as_many_numbers():
    drawing = draw.spacing(fraction_bits=3, binades=2)
    ticks = [line for line in drawing.figure.axes[0].lines if len(set(line.get_xdata())) == 1]
    assert len(ticks) == 8 + 2 * 8 + 1
    assert "2 binades of 8 numbers each" in drawing.alt


@pytest.mark.parametrize(("value", "low", "high"), [(0.1, 0.09997559, 0.1000366), (-3.001, -3.001953, -3.0)])
def test_rounding_shows_the_two_neighbours(value, low, high):
    drawing = draw.rounding(value)
    assert {f"{low:.7g}", f"{high:.7g}"} <= set(words(drawing))
    assert f"nearer one, {float(np.float16(value)):.7g}" in drawing.alt


def test_rounding_of_a_subnormal_number_uses_their_distance():
    assert "which are 5.96e-08 apart" in draw.rounding(1.3e-6).alt


@pytest.mark.parametrize(
    "drawing",
    [draw.float_bits(0.7), draw.float_bits(-1e-6), draw.spacing(), draw.spacing(3, 4), draw.rounding(0.7),
     draw.rounding(0.1, "fp32"), draw.rounding(0.3, "bf16")],
)  # fmt: skip
def test_all_words_are_within_the_figure_and_large_enough(drawing):
    figure = drawing.figure
    figure.canvas.draw()
    for text in figure.findobj(Text):
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width and text.get_fontsize() >= 10, text.get_text()
            assert box.y0 >= 0 and box.y1 <= figure.bbox.height, text.get_text()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.float_bits(0.0), "value must not be 0"),
        (lambda: draw.float_bits(math.nan), "value must be finite"),
        (lambda: draw.float_bits(1.0, ("fp8",)), "name must be one of fp32, tf32, bf16, fp16, got 'fp8'"),
        (lambda: draw.spacing(4, 2), "at most 3 fraction_bits and 4 binades"),
        (lambda: draw.rounding(0.5), "value must lie between two numbers of fp16, got 0.5"),
        (lambda: draw.rounding(1e5), "value must lie between two numbers of fp16"),
    ],
)
def test_bad_parameters_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
