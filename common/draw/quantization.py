"""Drawings of quantization: codes on a number line, and how many codes each channel uses under one scale."""

from collections.abc import Sequence

import numpy as np

from .canvas import BLUE, DARK_RED, GREY, INK, ORANGE, Drawing, arrow, canvas, cell, text


def number_line(scale: float, zero_point: int, values: Sequence[float], codes: tuple[int, int] = (-8, 7)) -> Drawing:
    """The numbers that codes stand for, on a line, and the code that each value gets.

    scale: real numbers per code, above 0; zero_point: the code of 0.0, one of `codes`, the lowest and the highest (at
    most 16 of them). values: 1 to 4 real numbers. ValueError for others.
    """
    low, high = codes
    if not (scale > 0 and low <= zero_point <= high and 1 <= high - low <= 15 and 1 <= len(values) <= 4):
        raise ValueError("expected a scale above 0, a zero point among at most 16 codes, and 1 to 4 values")
    figure, axes = canvas(40, 8.6, 0.75)
    step, left, line = 34 / (high - low + 2), 3.0, 4.0

    def at(number: float) -> float:
        place = number / scale + zero_point - low + 1
        return left + step * min(max(place, 0), high - low + 2)

    axes.plot([left, left + 34], [line, line], color=INK, linewidth=1.2)
    for code in range(low, high + 1):
        x, own = left + (code - low + 1) * step, code == zero_point
        axes.plot([x, x], [line - 0.35, line + 0.35], color=DARK_RED if own else INK, linewidth=2 if own else 1.2)
        text(axes, x, line + 1.0, str(code), 10.5, color=DARK_RED if own else INK)
        text(axes, x, line + 2.1, f"{(code - zero_point) * scale:.3g}", 9, color=GREY)
    text(axes, left - 0.5, line + 1.0, "code", 10.5, ha="right")
    text(axes, left - 0.5, line + 2.1, "number", 9, color=GREY, ha="right")
    said = []
    for value in values:
        code = int(np.clip(np.rint(value / scale) + zero_point, low, high))
        text(axes, at(value), 1.0, f"{value:.3g}", 10.5, color=BLUE)
        arrow(axes, (at(value), 1.6), (left + (code - low + 1) * step, line - 0.5), BLUE)
        said.append(f"{value:.3g} gets code {code}, which stands for {(code - zero_point) * scale:.3g}")
    words = f"scale {scale:g}: the distance of two neighbours; zero point {zero_point}: the code of 0.0"
    text(axes, left, 7.7, words, 10.5, ha="left", color=GREY)
    return Drawing(figure, f"A number line with the codes {low} to {high}; {words}. {'; '.join(said)}.")


def codes_used(ranges: Sequence[float], most: int = 16) -> Drawing:
    """How many of the codes 1 to 127 each channel reaches, if one scale covers the widest channel.

    ranges: the greatest |number| of each channel, above 0; the first `most` are drawn. ValueError for none.
    """
    if not len(ranges) or min(ranges) <= 0 or most < 1:
        raise ValueError("expected at least one range, all above 0, and most at least 1")
    shown = list(ranges)[:most]
    reached = [int(np.rint(127 * one / max(ranges))) for one in shown]
    figure, axes = canvas(40, 2.4 + 0.9 * len(shown), 0.75)
    for row, codes in enumerate(reached):
        y = 0.5 + 0.9 * row
        text(axes, 4.2, y + 0.4, f"channel {row}", 9.5, ha="right")
        cell(axes, 4.6, y, 30, 0.7, "none")
        if codes:
            cell(axes, 4.6, y, 30 * codes / 127, 0.7, BLUE if codes > 15 else ORANGE)
        text(axes, 35.0, y + 0.4, f"{codes} of 127", 9.5, ha="left")
    words = "codes that a channel's largest weight reaches, with one scale per tensor"
    text(axes, 4.6, 1.4 + 0.9 * len(shown), words, 10.5, ha="left", color=GREY)
    listed = ", ".join(map(str, reached))
    return Drawing(figure, f"Bars per channel, the {words}: {listed} of 127.")
