"""Bytes in flight: how many a kernel has, how many a bandwidth needs, and how a thread can have more."""

from collections.abc import Mapping

from ..report.plots import INK
from .canvas import BLUE, GREEN, GREY, ORANGE, PAPER, Drawing, arrow, canvas, cell, positive, text

_SHOWN = 6  # lanes of a warp that are drawn


def bytes_in_flight(needed: float, have: Mapping[str, float]) -> Drawing:
    """Bars: the bytes in flight per multiprocessor of several kernels, and a line at those that a bandwidth needs.

    needed, have: bytes; have by the kernel's name. ValueError if `have` is empty or a number is not above 0.
    """
    if not have:
        raise ValueError("have: expected at least one kernel, got none")
    for name, value in {"needed": needed, **have}.items():
        if not value > 0:
            raise ValueError(f"{name}: expected a number of bytes above 0, got {value!r}")
    figure, axes = canvas(20, 1.5 + len(have) * 1.1)
    most = max(needed, *have.values())
    left, wide = 4.2, 12.0 / most
    for row, (name, value) in enumerate(have.items()):
        y = 0.5 + 1.1 * row
        cell(axes, left, y, value * wide, 0.7, GREEN if value >= needed else ORANGE)
        text(axes, left - 0.3, y + 0.35, name, 12, ha="right")
        text(axes, left + value * wide + 0.2, y + 0.35, f"{value / 1024:.0f} KiB", 11, ha="left", color=GREY)
    x, low = left + needed * wide, 0.5 + 1.1 * len(have)
    axes.plot([x, x], [0.2, low], color=INK, linewidth=1.6, linestyle="--")
    text(axes, x, low + 0.35, f"needed: {needed / 1024:.1f} KiB per multiprocessor", 11)
    kernels = ", ".join(f"{name} {value / 1024:.0f} KiB" for name, value in have.items())
    return Drawing(figure, f"Bytes in flight per multiprocessor: {kernels}. Needed: {needed / 1024:.1f} KiB.")


def loads_in_flight(loads: int = 4) -> Drawing:
    """What a thread loads from one array before it uses a number: one, `loads` narrow ones, or a wide one.

    loads: numbers per thread; each thread's are numbered by thread.
    """
    positive(loads=loads)
    if loads > 8:
        raise ValueError(f"loads must be at most 8, got {loads}")
    figure, axes = canvas(25, 7.9)
    gap = 0.9 if loads <= 4 else 0.5  # between the requests of a warp lie those of the block's other warps
    box = (16.4 - gap * (loads - 1)) / (_SHOWN * loads)
    rows = {
        "naive": ("1 load of 1 number", [(0, _SHOWN, 1)]),
        "unrolled": (f"{loads} loads of 1 number", [(load * _SHOWN, _SHOWN, 1) for load in range(loads)]),
        "vectorised": (f"1 load of {loads} numbers", [(0, _SHOWN * loads, loads)]),
    }
    for row, (name, (what, requests)) in enumerate(rows.items()):
        y = 0.6 + 2.3 * row
        text(axes, 0.2, y + 0.3, name, 13, ha="left", weight="bold")
        text(axes, 0.2, y + 1.0, what, 10, ha="left", color=GREY)
        covered = {}
        for number, (first, count, width) in enumerate(requests):
            for i in range(count):
                covered[first + i] = ((i // width) % _SHOWN, number)
        apart = gap if len(requests) > 1 else 0.0
        for i in range(_SHOWN * loads):
            thread, number = covered.get(i, (None, 0))
            colour = PAPER if thread is None else (BLUE, ORANGE)[number % 2]
            x = 6.2 + i * box + apart * number
            cell(axes, x, y, box, 0.8, colour)
            if thread is not None:
                text(axes, x + box / 2, y + 0.4, str(thread), 10)
        for number, (first, count, _) in enumerate(requests):
            start = 6.2 + first * box + apart * number
            end = start + count * box
            if number:
                text(axes, start - apart / 2, y + 0.4, "…", 11, color=GREY)
            arrow(axes, (start + 0.05, y + 1.05), (end - 0.05, y + 1.05), GREY, arrowstyle="|-|,widthA=0.2,widthB=0.2")
            text(axes, (start + end) / 2, y + 1.4, f"request {number}", 10, color=GREY)
    words = f"Each box: one number of one array, with the thread that loads it; {_SHOWN} of the warp's 32 threads."
    text(axes, 6.2, 7.5, words, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"What {_SHOWN} threads of a warp load before they use a number. Naive: one number each, in one request."
        f" Unrolled: {loads} numbers each, in {loads} requests; in each, neighbours load neighbouring numbers."
        f" Vectorised: {loads} neighbouring numbers each, in a single request.",
    )
