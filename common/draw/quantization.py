"""Drawings of quantization: codes on a number line, codes per channel, ranges, errors by layer, steps of formats."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..report.plots import CARD, WIDTH
from .canvas import BLUE, DARK_RED, GREEN, GREY, INK, ORANGE, PURPLE, Drawing, arrow, canvas, cell, frame, text

_LINES = (BLUE, ORANGE, GREEN, PURPLE, DARK_RED)
_MARKERS = "osD^v"


def _panel(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), dpi=110, facecolor=CARD, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(CARD)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10.5)
    return figure, axes


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
    words = f"scale {scale:g}: the distance between neighbouring numbers; zero point {zero_point}: the code of 0.0"
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
    words = "code of a channel's largest weight, with one scale per tensor; orange: at most 15"
    text(axes, 4.6, 1.4 + 0.9 * len(shown), words, 10.5, ha="left", color=GREY)
    listed = ", ".join(map(str, reached))
    return Drawing(figure, f"One horizontal bar per channel: the {words}. From channel 0: {listed}, of 127.")


def chosen_ranges(centres: Sequence[float], counts: Sequence[float], ends: Mapping[str, float]) -> Drawing:
    """How often each number occurs in a tensor, and the upper end that each method chooses.

    centres, counts: of a histogram's bins; ends: by method, at most 5. ValueError for other lengths, and for more.
    """
    if len(centres) != len(counts) or not len(counts) or not 0 < len(ends) <= len(_LINES):
        raise ValueError("expected as many centres as counts, at least one, and 1 to 5 ends")
    figure, axes = _panel(3.2)
    used = np.asarray(counts) > 0
    axes.plot(np.asarray(centres)[used], np.asarray(counts)[used], ".", color=GREY, markersize=4)
    for (name, end), colour, marker in zip(ends.items(), _LINES, _MARKERS, strict=False):
        axes.axvline(end, color=colour, linewidth=1.4)
        axes.plot([end], [max(counts)], marker, color=colour, label=f"{name}: {end:.3g}", clip_on=False)
    axes.set(yscale="log", xlabel="number", ylabel="numbers per bin")
    axes.legend(frameon=False, fontsize=10.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    said = ", ".join(f"{name} {end:.3g}" for name, end in ends.items())
    return Drawing(
        figure,
        f"Dots: how many numbers of a tensor fall into each bin, on a logarithmic axis, from {min(centres):.3g} to"
        f" {max(centres):.3g}. Vertical lines: the upper end that each method chooses: {said}.",
    )


def errors_by_layer(rows: Mapping[str, Sequence[float]], label: str = "relative error") -> Drawing:
    """A dot per layer and network, on a logarithmic axis: {network: one error per layer}, at most 5 networks.

    ValueError for none, for more, and for rows of different lengths.
    """
    lengths = {len(row) for row in rows.values()}
    if not 0 < len(rows) <= len(_LINES) or len(lengths) != 1 or 0 in lengths:
        raise ValueError("expected 1 to 5 rows of one length, at least 1")
    figure, axes = _panel(3.4)
    for (name, row), colour, marker in zip(rows.items(), _LINES, _MARKERS, strict=False):
        axes.plot(range(len(row)), np.maximum(row, 1e-9), marker, color=colour, markersize=4, label=name)
    axes.set(yscale="log", xlabel="layer", ylabel=label)
    axes.grid(axis="y", color="0.92")
    axes.legend(frameon=False, fontsize=10.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    said = "; ".join(f"{name}: median {np.median(row):.2g}, largest {max(row):.2g}" for name, row in rows.items())
    return Drawing(figure, f"Dots of the {label} against the layer, on a logarithmic axis. {said}.")


def numbers_of_formats(greatest: float = 6.0) -> Drawing:
    """The numbers from 0 to `greatest`, above 0, that int8 and e4m3 have with one scale; every fourth of int8's."""
    from ..quantize.formats import LARGEST, e4m3

    if not greatest > 0:
        raise ValueError(f"greatest must be above 0, got {greatest}")
    bits = e4m3(np.exp2(np.arange(-9, 9, 1 / 64)))
    rows = {
        "int8": np.arange(0, 128) / 127 * greatest,
        "e4m3": np.unique(np.concatenate([[0.0], bits])) / LARGEST * greatest,
    }
    figure, axes = canvas(40, 7.2, 0.75)
    left, width = 4.0, 34.0
    for y, (name, numbers), colour in zip((1.2, 4.0), rows.items(), (BLUE, DARK_RED), strict=True):
        text(axes, left - 0.6, y + (0.15 if name == "int8" else 0.6), name, 11, ha="right")
        for number in numbers[:: 4 if name == "int8" else 1]:
            x = left + width * number / greatest
            axes.plot([x, x], [y, y + 1.2], color=colour, linewidth=0.9)
    text(axes, left - 0.6, 2.4, "every fourth", 8.5, color=GREY, ha="right")
    for share in (0, 0.25, 0.5, 0.75, 1):
        text(axes, left + width * share, 6.2, f"{greatest * share:.3g}", 9.5, color=GREY)
    few = int((rows["e4m3"] > greatest / 2).sum())
    return Drawing(
        figure,
        f"The numbers of two formats from 0 to {greatest:g}. int8: 128 numbers at equal distances, every fourth drawn."
        f" e4m3: {len(rows['e4m3'])} numbers, dense near 0 and {few} in the upper half.",
    )


def folded_step(kinds: Sequence[str] = ("Conv", "ReLU6")) -> Drawing:
    """What an importer makes of layers between DequantizeLinear and QuantizeLinear: one step on codes.

    kinds: 1 to 3 names of layers. ValueError for others.
    """
    if not 1 <= len(kinds) <= 3:
        raise ValueError(f"expected 1 to 3 layers, got {len(kinds)}")
    figure, axes = canvas(40, 9.6, 0.75)
    boxes = ["Dequantize", *kinds, "Quantize"]
    wide = 32 / len(boxes)
    text(axes, 0.6, 1.2, "the file", 10.5, ha="left", color=GREY)
    for i, name in enumerate(boxes):
        x, own = 6.5 + i * wide, name in kinds
        cell(axes, x, 0.4, wide - 1.4, 1.7, BLUE if own else ORANGE)
        text(axes, x + wide / 2 - 0.7, 1.25, name, 10.5)
        if i:
            arrow(axes, (x - 1.4, 1.25), (x, 1.25))
    frame(axes, 6.0, 0.1, 32, 3.3, GREY)
    text(axes, 22, 2.8, "real numbers", 10, color=GREY)
    text(axes, 0.6, 6.6, "the step", 10.5, ha="left", color=GREY)
    arrow(axes, (22, 3.5), (22, 5.5))
    cell(axes, 10.5, 5.6, 23, 2.0, GREEN)
    text(axes, 22, 6.6, "int8 → Σ w·x + bias in int32 → requantize, saturate → int8", 10.5)
    text(axes, 22, 8.7, "codes in, codes out: no real number is written to memory", 10, color=GREY)
    return Drawing(
        figure,
        f"Above, the layers of a file: {', '.join(boxes)}, with real numbers between them. Below, the one step that"
        " replaces them: int8 codes in, an int32 sum, requantized and saturated, int8 codes out.",
    )
