"""Floating-point formats: the bits of a number, the spacing of the numbers, and rounding on a number line."""

import math
from dataclasses import dataclass
from typing import Any

from .canvas import BLUE, DARK_RED, GREY, INK, ORANGE, PURPLE, RED, Drawing, arrow, canvas, cell, positive, text

FORMATS = {"fp32": (8, 23), "tf32": (8, 10), "bf16": (8, 7), "fp16": (5, 10)}  # exponent bits, fraction bits
_SIGN, _EXPONENT, _FRACTION = RED, ORANGE, BLUE


@dataclass(frozen=True)
class Bits:
    """A number in a format: its three fields as integers, and the value that they stand for."""

    sign: int
    exponent: int
    fraction: int
    value: float


def encoded(value: float, name: str) -> Bits:
    """The nearest number of a format, a tie going to the even one.

    value: a finite float. name: a key of FORMATS. ValueError for others.
    """
    exponent_bits, fraction_bits = _sizes(name)
    if not math.isfinite(value):
        raise ValueError(f"value must be finite, got {value!r}")
    bias = 2 ** (exponent_bits - 1) - 1
    # subnormal numbers and 0 share the smallest exponent
    power = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
    steps = round(math.ldexp(abs(value), fraction_bits - power))
    # the leading 1 of a normal number is not stored: it raises the exponent field from 0, as a carry does
    number = min(steps + (power + bias - 1 << fraction_bits), 2**exponent_bits - 1 << fraction_bits)
    sign = int(math.copysign(1, value) < 0)
    field, fraction = number >> fraction_bits, number & 2**fraction_bits - 1
    size = math.inf if field == 2**exponent_bits - 1 else math.ldexp(steps, power - fraction_bits)
    return Bits(sign, field, fraction, -size if sign else size)


def _sizes(name: str) -> tuple[int, int]:
    if name not in FORMATS:
        raise ValueError(f"name must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def float_bits(value: float, names: tuple[str, ...] = tuple(FORMATS)) -> Drawing:
    """The bit fields of a number in several formats, and what each format stores. The number must be finite, not 0."""
    if value == 0:
        raise ValueError("value must not be 0")
    rows = [(name, *_sizes(name), encoded(value, name)) for name in names]
    figure, axes = canvas(40, 2.6 + 3.3 * len(rows), 0.75)
    for x, words, colour in ((4.6, "sign", _SIGN), (8.2, "exponent", _EXPONENT), (14.0, "fraction", _FRACTION)):
        cell(axes, x, 0.5, 0.9, 1.0, colour)
        text(axes, x + 1.3, 1.0, words, 11, ha="left")
    said = []
    for row, (name, exponent_bits, fraction_bits, bits) in enumerate(rows):
        y, x = 2.4 + 3.3 * row, 4.6
        size = 1 + exponent_bits + fraction_bits
        text(axes, 0.3, y + 0.55, name, 12, ha="left", weight="bold")
        text(axes, 0.3, y + 1.75, f"{size} bits", 10, ha="left", color=GREY)
        fields = (
            (bits.sign, 1, _SIGN),
            (bits.exponent, exponent_bits, _EXPONENT),
            (bits.fraction, fraction_bits, _FRACTION),
        )
        for field, width, colour in fields:
            for digit in f"{field:0{width}b}":
                cell(axes, x, y, 1.05, 1.1, colour)
                text(axes, x + 0.525, y + 0.57, digit, 11)
                x += 1.05
        off = abs(bits.value - value) / abs(value)
        error = "exact" if off == 0 else f"off by {off:.0e} of the value"
        text(axes, 4.6, y + 1.75, f"stores {bits.value:.9g}: {error}", 10.5, ha="left", color=GREY if off else INK)
        said.append(
            f"{name}: 1 sign, {exponent_bits} exponent and {fraction_bits} fraction bits, stores {bits.value:.9g}"
        )
    return Drawing(figure, f"The bits of {value:.9g} in {len(rows)} formats. {'; '.join(said)}.")


def spacing(fraction_bits: int = 2, binades: int = 3) -> Drawing:
    """All positive numbers of a small format on a line: the subnormal ones, then `binades` binades of normal ones.

    fraction_bits, binades: at most 3 and 4. ValueError for more.
    """
    positive(fraction_bits=fraction_bits, binades=binades)
    if fraction_bits > 3 or binades > 4:
        raise ValueError(f"at most 3 fraction_bits and 4 binades can be drawn, got {fraction_bits} and {binades}")
    per, smallest = 2**fraction_bits, 2.0 ** (1 - binades)
    end = 2.0 * per * (2 ** (binades - 1))  # in units of the smallest distance
    figure, axes = canvas(20, 4.3)
    scale, left, line = 18.6 / end, 0.7, 2.1
    axes.plot([left, left + 18.6], [line, line], color=INK, linewidth=1.2)
    _tick(axes, left, line, "0")
    for k in range(1, per):
        _tick(axes, left + k * scale, line)
    _span(axes, left, left + per * scale, "subnormal", PURPLE)
    for b in range(binades):
        start, step = per * 2**b, 2**b
        for k in range(per):
            _tick(axes, left + (start + k * step) * scale, line, f"{smallest * 2**b:g}" if k == 0 else "")
        _span(
            axes,
            left + start * scale,
            left + 2 * start * scale,
            f"binade {b + 1}",
            (BLUE, ORANGE)[b % 2],
        )
    _tick(axes, left + end * scale, line, "2")
    words = (
        f"{fraction_bits} fraction bits: each binade has {per} numbers, and their distance doubles from one to the next"
    )
    text(axes, 0.5, 3.8, words, 11, ha="left", color=GREY)
    return Drawing(
        figure,
        f"A number line from 0 to 2 for a format of {fraction_bits} fraction bits. Below {smallest:g} the numbers are"
        f" subnormal, at equal distances. Above lie {binades} binades of {per} numbers each; the distance"
        " doubles from one binade to the next.",
    )


def _tick(axes: Any, x: float, y: float, words: str = "") -> None:
    axes.plot([x, x], [y - (0.3 if words else 0.18), y + (0.3 if words else 0.18)], color=INK, linewidth=1.3)
    if words:
        text(axes, x, y + 0.65, words, 11)


def _span(axes: Any, start: float, end: float, words: str, colour: str) -> None:
    cell(axes, start, 1.15, end - start, 0.35, colour)
    text(axes, (start + end) / 2, 0.7, words, 10)


def _digits(name: str) -> int:
    """Decimal digits that tell two neighbours in a format apart."""
    return 10 if name == "fp32" else 7


def rounding(value: float, name: str = "fp16") -> Drawing:
    """A number between its two neighbours in a format: it is rounded to the nearer one.

    ValueError if the format stores the number exactly, or if it is beyond the format's largest number.
    """
    _, fraction_bits = _sizes(name)
    nearest = encoded(value, name).value
    if nearest == value or math.isinf(nearest):
        raise ValueError(f"value must lie between two numbers of {name}, got {value!r}")
    unit = math.ldexp(1.0, max(math.frexp(value)[1] - 1, 2 - 2 ** (_sizes(name)[0] - 1)) - fraction_bits)
    low = math.floor(value / unit) * unit
    share = (value - low) / unit
    figure, axes = canvas(20, 5.2)
    left, wide, line = 2.6, 14.8, 2.5
    axes.plot([left - 1.6, left + wide + 1.6], [line, line], color=INK, linewidth=1.2)
    for k, edge in enumerate((low, low + unit)):
        _tick(axes, left + k * wide, line, f"{edge:.{_digits(name)}g}")
    axes.plot([left + wide / 2] * 2, [line - 0.2, line + 0.2], color=GREY, linewidth=1.2, linestyle=":")
    text(axes, left + wide / 2, line + 0.65, "halfway", 10, color=GREY)
    x, to = left + share * wide, left + (0 if nearest == low else wide)
    axes.plot([x], [line], "o", color=DARK_RED, markersize=7)
    text(axes, x, line - 1.35, f"{value:.11g}", 11, color=DARK_RED, ha="center")
    arrow(axes, (x, line - 0.75), (to, line - 0.45), DARK_RED, connectionstyle=f"arc3,rad={0.15 if to < x else -0.15}")
    arrow(axes, (left + wide / 2, 4.0), (left + wide, 4.0), INK)
    arrow(axes, (left + wide / 2, 4.0), (left, 4.0), INK)
    off = abs(nearest - value)
    words = f"1 unit in the last place: {unit:.3g}. The rounding error here: {off:.3g}, {off / unit:.2f} units"
    text(axes, left + wide / 2, 4.6, words, 11)
    lower, upper, stored = (f"{number:.{_digits(name)}g}" for number in (low, low + unit, nearest))
    return Drawing(
        figure,
        f"A number line. {value:.11g} lies between {lower} and {upper}, two neighbours in {name}, which are {unit:.3g}"
        f" apart: 1 unit in the last place. It is rounded to the nearer one, {stored}; the error is"
        f" {off / unit:.2f} units.",
    )
