"""The card's memory hierarchy, and latency hiding."""

import math

from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, Drawing, canvas, cell, frame, text
from .card import MEMORY_LATENCY_NS, Card


def quantity(value: float, unit: str, base: int = 1000) -> str:
    """A value with a prefix and three digits: 4.28e12, "B/s" → "4.28 TB/s". base: 1000, or 1024 for binary units."""
    power = max(0, min(4, math.floor(math.log(value, base) + 1e-9)))
    return f"{value / base**power:.3g} {('', 'K' if base == 1024 else 'k', 'M', 'G', 'T')[power]}{unit}"


def memory(card: Card) -> Drawing:
    """A card's levels of memory: two in each multiprocessor, two shared by all."""
    registers, shared, cache, far = card.levels
    figure, axes = canvas(20, 11.0)
    text(axes, 0.3, 0.6, f"{card.name}: {card.sms} multiprocessors (SMs)", ha="left", weight="bold")
    text(axes, 15.9, 0.6, "bandwidth", ha="left", weight="bold")
    text(axes, 15.9, 1.3, f"all {card.sms} SMs together", 10, ha="left")
    for k, name in enumerate(("SM 0", "SM 1", "…", f"SM {card.sms - 1}")):
        x = 0.3 + 3.8 * k
        if name == "…":
            text(axes, x + 1.8, 3.2, "…", 18)
            continue
        frame(axes, x, 1.1, 3.6, 4.1, GREY, 0.2)
        text(axes, x + 1.8, 1.5, name, 10)
        for y, level, colour in ((1.85, registers, GREEN), (3.5, shared, ORANGE)):
            frame(axes, x + 0.2, y, 3.2, 1.5, colour, 0.15)
            text(axes, x + 1.8, y + 0.5, level.name, 10.5, weight="bold")
            text(axes, x + 1.8, y + 1.0, quantity(level.bytes / card.sms, "B", 1024), 10.5)
    for y, level, colour in ((5.6, cache, BLUE), (7.6, far, PURPLE)):
        frame(axes, 0.3, y, 15.0, 1.6, colour, 0.2)
        size = quantity(level.bytes, "B", 1024 if level is cache else 1000)
        text(axes, 7.8, y + 0.8, f"{level.name}: {size}", 12, weight="bold")
    lines = []
    for y, level in ((2.3, registers), (4.0, shared), (6.2, cache), (8.2, far)):
        text(axes, 15.9, y, quantity(level.bytes_per_s, "B/s"), 13, ha="left", weight="bold")
        text(axes, 15.9, y + 0.55, level.rate_from, 10, ha="left", color=GREY)
        lines.append(f"{level.name}, {quantity(level.bytes_per_s, 'B/s')}")
    notes = (
        f"Sizes: registers and shared memory from the {registers.size_from}, L2 {cache.size_from}, global memory from\n"
        f"the {far.size_from}. Measured from {card.date} on. Computed: registers from the rate of multiply-adds,\n"
        "shared memory from its width and clock."
    )
    text(axes, 0.3, 10.15, notes, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"The memory of an {card.name}. Within each of {card.sms} multiprocessors: registers of"
        f" {quantity(registers.bytes / card.sms, 'B', 1024)} and {shared.name} of"
        f" {quantity(shared.bytes / card.sms, 'B', 1024)}. Below them, for all: an L2 cache of"
        f" {quantity(cache.bytes, 'B', 1024)} and global memory of {quantity(far.bytes, 'B')}. Bandwidths of"
        f" all multiprocessors together:"
        f" {'; '.join(lines)}.",
    )


def latency(loads: int = 4, rows: int = 6) -> Drawing:
    """Latency hiding: one thread with dependent loads, and many threads, whose waits overlap.

    loads: per thread in the drawing. rows: the number of threads drawn.
    """
    alone = 4 / (MEMORY_LATENCY_NS * 1e-9)
    figure, axes = canvas(20, 3.8 + 0.55 * rows)
    left, wide = 5.4, 8.2 / loads
    text(axes, 5.1, 1.0, "1 thread", 12, ha="right", weight="bold")
    text(axes, 5.1, 1.95 + 0.275 * rows, "many threads", 12, ha="right", weight="bold")
    text(axes, 5.1, 2.75 + 0.275 * rows, "all wait at\nthe same time", 10, ha="right", color=GREY)
    for row in range(rows + 1):
        y = 0.6 if row == 0 else 2.0 + 0.55 * (row - 1) + 0.25
        high = 0.8 if row == 0 else 0.42
        for k in range(loads):
            cell(axes, left + k * wide, y, wide * 0.97, high, ORANGE if row == 0 else BLUE)
            if row == 0:
                text(axes, left + (k + 0.48) * wide, 1.0, f"{MEMORY_LATENCY_NS} ns", 10)
    text(axes, left + 4.1, 2.6 + 0.55 * rows, "⋮", 14)
    text(axes, 14.1, 1.0, f"{quantity(alone, 'B/s')}", 13, ha="left", weight="bold")
    text(axes, 14.1, 2.3 + 0.275 * rows, "as much\nper thread", 13, ha="left", weight="bold")
    words = "time →   Each box: one load of 4 bytes, measured on an idle GPU."
    text(axes, left, 3.3 + 0.55 * rows, words, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"One thread that loads 4 bytes after 4 bytes waits {MEMORY_LATENCY_NS} ns for each: {quantity(alone, 'B/s')}."
        " Many threads wait at the same time, and each of them loads as much.",
    )
