"""Sums across the lanes of a warp, by shuffles."""

from collections.abc import Sequence

from .canvas import BLUE, DARK_GREEN, GREEN, GREY, INK, ORANGE, Drawing, arrow, canvas, cell, text

_PALE = "#8a8a8a"  # numbers that nothing uses


def shuffle_tree(values: Sequence[float] = (3, 1, 7, 0, 4, 1, 6, 3)) -> Drawing:
    """The sums of a small warp's lanes before and after each `sum += __shfl_down_sync(mask, sum, step)`.

    values: one per lane, 2, 4, 8 or 16 numbers. ValueError for another length.
    """
    count = len(values)
    if count < 2 or count > 16 or count & (count - 1):
        raise ValueError(f"values must be 2, 4, 8 or 16 numbers, got {count}")
    steps = count.bit_length() - 1
    figure, axes = canvas(20, 2.2 + 2.1 * steps, 0.9)
    wide, left, sums = 14.0 / count, 5.6, list(values)
    for lane in range(count):
        text(axes, left + (lane + 0.5) * wide, 0.5, f"lane {lane}", 10, color=GREY)
    for row in range(steps + 1):
        y, needed = 1.0 + 2.1 * row, count >> row
        for lane in range(count):
            cell(axes, left + lane * wide, y, wide * 0.9, 0.9, BLUE if lane < needed else "#ffffff")
            colour = INK if lane < needed else _PALE
            text(axes, left + (lane + 0.45) * wide, y + 0.45, f"{sums[lane]:g}", 12, color=colour)
        if row == steps:
            text(axes, left - 0.3, y + 0.45, f"lane 0: the sum, {sums[0]:g}", 10, ha="right", weight="bold")
            break
        step = count >> (row + 1)
        text(
            axes, left - 0.3, y + 1.5, f"step {step}: each lane\nreads lane + {step}", 10, ha="right", color=DARK_GREEN
        )
        for lane in range(step):
            x = left + (lane + 0.45) * wide
            arrow(axes, (x + step * wide, y + 0.9), (x + 0.08 * wide, y + 2.06), GREEN)
        sums = [s + (sums[lane + step] if lane + step < count else s) for lane, s in enumerate(sums)]
    return Drawing(
        figure,
        f"The registers of {count} lanes. In step {', '.join(str(count >> k) for k in range(1, steps + 1))} each lane"
        f" adds the sum of the lane so many further on. After {steps} steps lane 0 has the sum, {sums[0]:g}; the other"
        " lanes hold numbers that nothing uses. Only the arrows that count are drawn.",
    )


def halving(lanes: int = 8, channels: int = 4) -> Drawing:
    """Several sums per lane: in each step a lane gives half of them away and adds what it receives to the rest.

    lanes: of a small warp. channels: sums per lane; both powers of two, and more lanes than channels.
    """
    for name, value in (("lanes", lanes), ("channels", channels)):
        if value < 2 or value & (value - 1):
            raise ValueError(f"{name} must be a power of two above 1, got {value}")
    if not channels < lanes <= 16:
        raise ValueError(f"lanes must be more than channels and at most 16, got {lanes} and {channels}")
    rounds = channels.bit_length() - 1
    figure, axes = canvas(40, 1.2 + (rounds + 1) * 2.0 + sum((channels >> r) * 1.15 for r in range(rounds + 1)), 0.85)
    left, wide = 9.4, 30.0 / lanes
    held = [list(range(channels)) for _ in range(lanes)]
    y, step = 1.6, lanes // 2
    for lane in range(lanes):
        text(axes, left + (lane + 0.45) * wide, 0.8, f"lane {lane}", 10, color=GREY)
    shuffles = 0
    for row in range(rounds + 1):
        kept = len(held[0]) // 2
        for lane in range(lanes):
            upper = bool(lane & step) and row < rounds
            for k, channel in enumerate(held[lane]):
                given = row < rounds and ((k < kept) if upper else (k >= kept))
                cell(axes, left + lane * wide, y + 1.15 * k, wide * 0.88, 1.0, ORANGE if given else BLUE)
                text(axes, left + (lane + 0.44) * wide, y + 1.15 * k + 0.5, f"sum {channel}", 10)
        high = 1.15 * len(held[0])
        if row == rounds:
            last = f"then {(lanes // channels).bit_length() - 1} more\nfor each {lanes // channels} lanes"
            text(axes, left - 0.5, y + 0.5, last, 10, ha="right")
            break
        shuffles += kept
        words = f"step {step}: {kept} shuffle{'s' if kept > 1 else ''}\ngive orange to\nlane ^ {step}, keep blue"
        text(axes, left - 0.5, y + high / 2, words, 10, ha="right", color=DARK_GREEN)
        arrow(axes, (left + 15.0, y + high + 0.2), (left + 15.0, y + high + 1.7), GREEN)
        held = [sums[kept:] if lane & step else sums[:kept] for lane, sums in enumerate(held)]
        y, step = y + high + 2.0, step // 2
    return Drawing(
        figure,
        f"{lanes} lanes with {channels} sums each. In each step a lane gives half of its sums to the lane across, adds"
        f" what it receives to the others, and keeps these: after {shuffles} shuffles each lane has one sum, of channel"
        f" {', '.join(str(sums[0]) for sums in held)} from lane 0 on.",
    )
