"""A tree reduction in shared memory."""

from collections.abc import Sequence

from .canvas import BLUE, DARK_GREEN, GREEN, GREY, INK, Drawing, arrow, canvas, cell, text


def tree(values: Sequence[float] = (3, 1, 7, 0, 4, 1, 6, 3)) -> Drawing:
    """Shared memory before and after each step of s[t] += s[t + distance], t < distance; each step halves distance.

    values: the initial contents of s, 2, 4, 8 or 16 numbers. ValueError for another length.
    """
    count = len(values)
    if count < 2 or count > 16 or count & (count - 1):
        raise ValueError(f"values must be 2, 4, 8 or 16 numbers, got {count}")
    steps = count.bit_length() - 1
    figure, axes = canvas(20, 2.4 + 2.2 * steps, 0.9)
    wide, left, s = 14.0 / count, 5.8, list(values)
    for k in range(count):
        text(axes, left + (k + 0.5) * wide, 0.5, f"s[{k}]", 10, color=GREY)
    distance = count
    for row in range(steps + 1):
        y = 1.0 + 2.2 * row
        for k in range(count):
            cell(axes, left + k * wide, y, wide, 1.0, BLUE if k < distance else "#ffffff")
            text(axes, left + (k + 0.5) * wide, y + 0.5, f"{s[k]:g}", 12, color=INK if k < distance else "#9a9a9a")
        if row == steps:
            text(axes, left - 0.4, y + 0.5, f"s[0]: the sum, {s[0]:g}", 10, ha="right", weight="bold")
            break
        distance //= 2
        adding = f"{distance} threads add" if distance > 1 else "1 thread adds"
        words = f"step {row + 1}: {adding},\ndistance {distance}"
        text(axes, left - 0.4, y + 1.6, words, 10, ha="right", color=DARK_GREEN)
        axes.plot([left, left + 14], [y + 1.25, y + 1.25], color=GREY, linestyle=":", linewidth=1.2)
        for k in range(distance):
            x = left + (k + 0.5) * wide
            arrow(axes, (x + distance * wide, y + 1.0), (x + 0.08 * wide, y + 2.16), GREEN)
            arrow(axes, (x, y + 1.0), (x, y + 2.16), GREEN)
            s[k] += s[k + distance]
    text(axes, 0.3, 0.5, "dotted line: barrier", 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"{count} values in shared memory are added in {steps} steps. In each step the lower half of them adds the"
        f" upper half. The distance of the pairs, which is also the number of threads that add, is"
        f" {', '.join(str(count >> k) for k in range(1, steps + 1))}. s[0] is then the sum, {s[0]:g}.",
    )
