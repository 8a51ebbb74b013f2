"""Drawings of an engine at work: programs over one set of weights, saved launches, two threads, two errors."""

from collections.abc import Mapping, Sequence

from .canvas import BLUE, DARK_RED, GREEN, GREY, ORANGE, PAPER, RED, SKY, Drawing, arrow, canvas, cell, positive, text

LONGEST = 13  # units, of the widest box of bytes


def _width(size: int, largest: int) -> float:
    return max(LONGEST * size / largest, 0.12)


def programs(weights: int, arenas: Mapping[str, int]) -> Drawing:
    """An engine: its weights, and a program with an arena of its own for each entry of `arenas`; widths are bytes.

    weights: bytes. arenas: {what the program is for: bytes of its arena}, one to five. ValueError for other numbers.
    """
    positive(weights=weights, **{f"arena_{number}": size for number, size in enumerate(arenas.values())})
    if not 1 <= len(arenas) <= 5:
        raise ValueError(f"arenas must be one to five, got {len(arenas)}")
    largest = max(weights, *arenas.values())
    figure, axes = canvas(34, 3.4 + 1.9 * len(arenas))
    text(axes, 0.4, 1.5, "weights, shared", 11.5, ha="left", weight="bold")
    cell(axes, 14.2, 0.8, _width(weights, largest), 1.3, ORANGE)
    text(axes, 14.2 + _width(weights, largest) + 0.4, 1.45, f"{weights:,} bytes", 10.5, ha="left")
    for row, (name, size) in enumerate(arenas.items()):
        y = 3.1 + 1.9 * row
        axes.plot([13.3, 13.3, 14.0], [1.45, y + 0.65, y + 0.65], color=GREY, linewidth=1.2)
        text(axes, 0.4, y + 0.65, f"program: {name}", 11, ha="left")
        cell(axes, 14.2, y, _width(size, largest), 1.3, SKY)
        text(axes, 14.2 + _width(size, largest) + 0.4, y + 0.65, f"{size:,} bytes", 10.5, ha="left")
    axes.plot([13.3, 14.0], [1.45, 1.45], color=GREY, linewidth=1.2)
    listed = "; ".join(f"{name}, {size:,} bytes" for name, size in arenas.items())
    return Drawing(
        figure,
        f"Bars of bytes. Weights, {weights:,} bytes, are there once and are joined by lines to {len(arenas)} programs,"
        f" each with an arena of its own: {listed}.",
    )


def relocation(offset: int, first: int, second: int) -> Drawing:
    """An argument of a launch: an address in one arena, an offset in the file, an address in the arena after loading.

    offset: of the array in the arena. first, second: the addresses of the two arenas.
    """
    positive(offset=offset, first=first, second=second)
    figure, axes = canvas(36, 9.6)
    places = (("the program", first, 0.6), ("the loaded program", second, 24.6))
    for title, base, x in places:
        text(axes, x + 5.4, 0.8, title, 11.5, weight="bold")
        text(axes, x + 5.4, 2.0, f"arena from {base:#x}", 10.5, color=GREY)
        cell(axes, x, 2.8, 10.8, 1.6, PAPER)
        cell(axes, x + 4.6, 2.8, 2.6, 1.6, SKY)
        arrow(axes, (x + 4.6, 6.6), (x + 4.6, 4.5), BLUE)
        text(axes, x + 5.4, 7.3, f"pointwise({base + offset:#x}, …)", 10.5)
    text(axes, 18, 0.8, "the file", 11.5, weight="bold")
    cell(axes, 14.2, 2.8, 7.6, 5.2, PAPER)
    text(axes, 18, 4.3, '"pointwise"', 10.5)
    text(axes, 18, 5.4, f"[offset {offset:,}, …]", 10.5)
    text(axes, 18, 6.5, "weights, once", 10.5)
    arrow(axes, (11.8, 5.4), (14.0, 5.4))
    arrow(axes, (22.0, 5.4), (24.2, 5.4))
    text(axes, 12.9, 8.9, "− base", 11, color=DARK_RED)
    text(axes, 23.1, 8.9, "+ new base", 11, color=DARK_RED)
    return Drawing(
        figure,
        f"A launch of pointwise reads address {first + offset:#x} of an arena that begins at {first:#x}. The file holds"
        f" the difference, offset {offset:,}. After loading, the arena begins at {second:#x}, and the launch reads"
        f" {second + offset:#x}.",
    )


def turns(launches: int = 5, interrupted: int = 2, programs: int = 1) -> Drawing:
    """Two threads that run one network: when each launches, and the arena that it writes.

    launches: of a run, at most 8. interrupted: after how many of them thread 1 has to wait for all of thread 2's.
    programs: 1 for both threads, 2, or 0 to leave the arenas out. ValueError for other numbers.
    """
    positive(launches=launches, interrupted=interrupted)
    if launches > 8 or interrupted >= launches or programs not in (0, 1, 2):
        raise ValueError(
            "launches must be at most 8, interrupted less, programs 0, 1 or 2,"
            f" got {launches}, {interrupted} and {programs}"
        )
    figure, axes = canvas(33, 9.4 if programs else 5.2)
    order = [(0, i) for i in range(interrupted)] + [(1, i) for i in range(launches)]
    order += [(0, i) for i in range(interrupted, launches)]
    colours, step = (BLUE, ORANGE), min(2.1, 26 / len(order))
    text(axes, 6.0 + step * len(order) / 2, 0.7, "time →", 10.5, color=GREY)
    for thread in (0, 1):
        text(axes, 0.4, 2.1 + 1.9 * thread, f"thread {thread + 1}", 11.5, ha="left", weight="bold")
    for at, (thread, launch) in enumerate(order):
        x = 6.0 + step * at
        cell(axes, x, 1.4 + 1.9 * thread, step, 1.4, colours[thread])
        text(axes, x + step / 2, 2.1 + 1.9 * thread, str(launch), 10.5)
        if not programs:
            continue
        wrong = programs == 1 and at >= interrupted + launches
        y = 6.0 if programs == 1 else 5.4 + 1.7 * thread
        cell(axes, x, y, step, 1.4, RED if wrong else colours[thread])
        text(axes, x + step / 2, y + 0.7, "?" if wrong else str(thread + 1), 10.5)
    if programs == 1:
        text(axes, 0.4, 6.7, "the arena", 11.5, ha="left", weight="bold")
        end = 6.0 + step * (interrupted + launches)
        said = "thread 1 goes on with numbers of thread 2"
        text(axes, min(end, 24.0), 8.4, said, 10.5, color=DARK_RED)
    for thread in (0, 1) if programs == 2 else ():
        text(axes, 0.4, 6.1 + 1.7 * thread, f"arena {thread + 1}", 11.5, ha="left", weight="bold")
    arenas = (
        "",
        " They write one arena: thread 1 goes on with numbers of thread 2.",
        " They write two arenas: no thread writes the other's arena.",
    )
    return Drawing(
        figure,
        f"Two threads with {launches} launches each. Thread 1 is interrupted after {interrupted} launches, thread 2"
        f" runs all of its own, then thread 1 continues.{arenas[programs]}",
    )


def two_errors(steps: Sequence[str] = ("step 0", "step 1", "step 2", "step 3"), wrong: int = 1) -> Drawing:
    """The inputs of each step for the two errors: what the step before wrote, or the reference's tensor.

    steps: three to five labels. wrong: the index of the step that is wrong itself. ValueError for other numbers.
    """
    if not 3 <= len(steps) <= 5 or not 0 <= wrong < len(steps):
        raise ValueError(f"steps must be 3 to 5, and wrong one of them, got {len(steps)} and {wrong}")
    figure, axes = canvas(34, 13.4)
    left, wide = 8.2, 25.0 / len(steps)
    for label, y in (("error so far", 2.2), ("own error", 8.0)):
        text(axes, 0.4, y + 0.8, label, 12, ha="left", weight="bold")
    text(axes, 0.4, 4.1, "of a run", 10.5, ha="left", color=GREY)
    text(axes, 0.4, 9.9, "of a launch alone", 10.5, ha="left", color=GREY)
    for i, label in enumerate(steps):
        x = left + wide * i
        box = wide - 2.4
        for y in (2.2, 8.0):
            cell(axes, x, y, box, 1.7, RED if i == wrong else GREEN)
            text(axes, x + box / 2, y + 0.85, label, 10.5)
        follows = i >= wrong
        arrow(axes, (x + box, 3.05), (x + wide - 0.15, 3.05), RED if follows else GREY)
        text(axes, x + box / 2, 4.7, "wrong" if follows else "fine", 10.5, color=DARK_RED if follows else GREY)
        arrow(axes, (x + box / 2, 7.0), (x + box / 2, 7.85), GREY)
        text(axes, x + box / 2, 6.5, "exact", 10.5, color=GREY)
        text(axes, x + box / 2, 10.5, "wrong" if i == wrong else "fine", 10.5, color=DARK_RED if i == wrong else GREY)
    text(axes, left, 0.9, "each step reads what the step before wrote", 10.5, ha="left", color=GREY)
    text(axes, left, 12.2, "each step reads the reference's tensors", 10.5, ha="left", color=GREY)
    return Drawing(
        figure,
        f"{len(steps)} steps in two rows; {steps[wrong]} is wrong. Above, each step reads what the step before wrote:"
        f" the error so far is large from {steps[wrong]} on, to the end. Below, each step reads the reference's"
        f" tensors: the own error is large for {steps[wrong]} alone.",
    )
