"""A picture of one memory request of a warp, from the addresses that a trace recorded."""

from typing import Any

import numpy as np


def draw(request: Any, kernel: str) -> Any:
    """A Matplotlib figure of a report.Request: the warp's threads against sectors of the array, or against banks.

    kernel: its name, for the title.
    """
    import matplotlib.pyplot as plt

    lanes = np.flatnonzero(request.offsets >= 0)
    offsets = request.offsets[lanes]
    height = 3.6 if request.space == "global" else min(4.6, 2.2 + 0.12 * _deepest(offsets, request.size))
    figure, axes = plt.subplots(figsize=(9, height), layout="constrained")
    colours = plt.get_cmap("viridis")(lanes / 31)
    if request.space == "global":
        _draw_sectors(axes, lanes, offsets, request.size, colours)
    else:
        _draw_banks(axes, lanes, offsets, request.size, colours)
    block = ", ".join(map(str, request.block))
    axes.set_title(
        f"{kernel}, line {request.line}: {request.kind} of {request.array}, warp {request.warp} of block ({block})",
        fontsize=12,
    )
    plt.close(figure)  # shown once, as the value of a notebook's cell
    return figure


def _draw_sectors(axes: Any, lanes: np.ndarray, offsets: np.ndarray, size: int, colours: Any) -> None:
    sectors = np.unique(np.concatenate([offsets // 32, (offsets + size - 1) // 32]))
    place = {int(sector): i for i, sector in enumerate(sectors)}  # only sectors that are accessed
    for lane, offset, colour in zip(lanes, offsets, colours, strict=True):
        x = place[int(offset) // 32] + (int(offset) % 32) / 32
        axes.barh(lane, size / 32, left=x, height=0.8, color=colour)
    for i in range(len(sectors) + 1):
        axes.axvline(i, color="0.8", linewidth=0.8, zorder=0)
    shown = range(len(sectors)) if len(sectors) <= 16 else range(0, len(sectors), 4)
    axes.set_xticks(list(shown), [f"{32 * int(sectors[i])}" for i in shown], fontsize=10)  # where a sector begins
    axes.set_xlim(0, len(sectors))
    axes.set_xlabel(f"byte offset in the array, a line at each sector of 32 bytes: {len(sectors)} sectors touched")
    axes.set_ylabel("lane")
    axes.set_ylim(31.8, -0.8)


def _deepest(offsets: np.ndarray, size: int) -> int:
    """The largest number of different words in one bank. offsets, size: in bytes."""
    words = np.unique(offsets[:, None] // 4 + np.arange(max(1, size // 4)))
    return int(np.bincount(words % 32).max())


def _draw_banks(axes: Any, lanes: np.ndarray, offsets: np.ndarray, size: int, colours: Any) -> None:
    words_each = max(1, size // 4)
    rows: dict[int, list[int]] = {}  # bank → its words, in the order of their first access
    wanted: dict[tuple[int, int], list[int]] = {}  # (bank, row) → the threads that access the word there
    for lane, offset, colour in zip(lanes, offsets, colours, strict=True):
        for word in range(int(offset) // 4, int(offset) // 4 + words_each):
            words = rows.setdefault(word % 32, [])
            if word not in words:
                words.append(word)
            row = words.index(word)
            axes.add_patch(_square(axes, word % 32, row, colour))
            wanted.setdefault((word % 32, row), []).append(int(lane))
    deepest = max(len(words) for words in rows.values())
    for (bank, row), threads in wanted.items():
        label = str(threads[0]) if len(threads) == 1 else f"{threads[0]}\n+{len(threads) - 1}"
        light = max(threads) < 20  # the square has the last thread's colour
        axes.text(
            bank,
            row,
            label,
            ha="center",
            va="center",
            fontsize=8 if deepest <= 12 else 5.5,
            color="white" if light else "black",
        )
    for bank in range(33):
        axes.axvline(bank - 0.5, color="0.88", linewidth=0.8, zorder=0)
    axes.set_xlim(-0.6, 31.6)
    axes.set_ylim(deepest - 0.4, -0.6)
    axes.set_xticks(range(0, 32, 4))
    axes.set_yticks(range(deepest) if deepest <= 8 else range(0, deepest, 4))
    axes.set_xlabel("bank of shared memory; the number in a square: which thread wants the word, and how many others")
    axes.set_ylabel("wavefront" if words_each == 1 else "words in one bank")


def _square(axes: Any, x: float, y: float, colour: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, color=colour)
