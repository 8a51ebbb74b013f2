"""The drawings of the notebook on Hopper: an mbarrier's phases, a producer and its ring, a block's roles, a cluster."""

from collections.abc import Sequence

from ..measure.mbarriers import Mbarrier, handshake
from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Drawing, arrow, canvas, cell, frame, positive, text

Step = tuple[str, int]  # ("arrive", 0), ("expect", bytes), ("come", bytes)


def phases(
    count: int = 1, steps: Sequence[Step] = (("expect", 1024), ("come", 512), ("come", 512), ("expect", 1024))
) -> Drawing:
    """What an mbarrier holds after each step: missing arrivals, missing bytes, the phase in progress."""
    bar = Mbarrier(count)
    states = [("init", bar.phase, bar.missing, bar.bytes)]
    for name, amount in steps:
        bar.arrive() if name == "arrive" else getattr(bar, name)(amount)
        words = name if name == "arrive" else f"{name} {amount:,}"
        states.append((words, bar.phase, bar.missing, bar.bytes))
    figure, axes = canvas(40, 9.4)
    width = 33.5 / len(states)
    for row, words in enumerate(("phase in progress", "arrivals missing", "bytes missing")):
        text(axes, 5.8, 3.35 + 2.1 * row, words, 10.5, ha="right")
    for i, (words, phase, missing, bytes_) in enumerate(states):
        x = 6.2 + i * width
        text(axes, x + width / 2, 1.2, words, 10.5, weight="bold")
        cell(axes, x, 2.4, width - 0.15, 1.9, (BLUE, ORANGE)[phase % 2])
        text(axes, x + width / 2, 3.35, f"{phase}  (parity {phase % 2})", 10.5)
        for row, number in enumerate((missing, bytes_)):
            cell(axes, x, 4.5 + 2.1 * row, width - 0.15, 1.9, *([GREY] if number else []))
            text(axes, x + width / 2, 5.45 + 2.1 * row, f"{number:,}", 10.5)
    said = "; ".join(f"after {w}: phase {p}, {_arrivals(m)} and {b} bytes missing" for w, p, m, b in states)
    return Drawing(figure, f"The state of an mbarrier with {_arrivals(count)} per phase. {said}.")


def _arrivals(count: int) -> str:
    return f"{count} arrival{'s' * (count != 1)}"


def ring(stages: int = 3, copy: float = 1.6, slices: int = 7) -> Drawing:
    """A producer, the stages of its ring and a consumer on a timeline, with what "full" and "empty" pass on."""
    positive(stages=stages, slices=slices)
    asked, came, work = handshake(stages, copy, slices)
    left, scale = 6.0, 33.0 / (work[-1] + 1.2)
    figure, axes = canvas(40, 7.2 + 1.7 * stages)
    consumer = 3.4 + 1.7 * stages
    for y, words in ((1.1, "producer"), (consumer + 0.6, "consumer")):
        text(axes, left - 0.4, y, words, 11, ha="right", weight="bold")
    for stage in range(stages):
        text(axes, left - 0.4, 3.1 + 1.7 * stage, f"stage {stage}", 10.5, ha="right")
    for s in range(slices):
        y = 2.5 + 1.7 * (s % stages)
        begin, there, start, end = (left + t * scale for t in (asked[s], came[s], work[s], work[s] + 1))
        cell(axes, begin, 0.6, max(0.1 * scale, 0.28), 1.0, GREEN)
        cell(axes, begin, y + 0.1, there - begin, 1.0, BLUE)
        cell(axes, there, y + 0.45, start - there, 0.3, GREY)
        cell(axes, start, y, end - start, 1.2, ORANGE, alpha=0.15)
        cell(axes, start, consumer, end - start, 1.2, ORANGE)
        text(axes, (start + end) / 2, consumer + 0.6, str(s), 10.5)
        text(axes, (begin + there) / 2, y + 0.6, str(s), 10)
        # full: the consumer goes on
        arrow(axes, (start + 0.12, y + 1.2), (start + 0.12, consumer), BLUE, linewidth=1.0)
        if s + stages < slices:  # empty: the stage may be asked for again
            arrow(axes, (end, consumer), (left + asked[s + stages] * scale, 1.7), GREEN, linewidth=1.0)
    y = consumer + 2.2
    text(axes, left, y, "blue: a copy on its way, then (grey) its stage is full. orange: arithmetic on the stage.", 10,
         ha="left", color=GREY)  # fmt: skip
    arrows = "blue arrow: “full”: the consumer goes on. green arrow: “empty”: the producer fills the stage again."
    text(axes, left, y + 1.1, f"{arrows}   time →", 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"A timeline of {slices} slices in a ring of {stages} stages; a copy takes {copy:g} times as long as the"
        f" arithmetic of a slice. Slice s is in stage s mod {stages}; its arithmetic waits until the stage is full, and"
        f" begins at {', '.join(f'{t:.1f}' for t in work)}; slice {stages} is asked for at"
        f" {asked[min(stages, slices - 1)]:.1f}, when the arithmetic of slice 0 is over and stage 0 is empty.",
    )


def roles(consumers: int, down: int, up: int, entry: int, stages: int) -> Drawing:
    """The warpgroups of a block, their registers, and the ring between them.

    consumers: warpgroups that compute. entry: registers per thread at the kernel's start; down, up: afterwards, of the
    producer's warpgroup and of the others.
    """
    positive(consumers=consumers, stages=stages)
    figure, axes = canvas(40, 11.6)
    frame(axes, 0.5, 1.6, 9.5, 6.4, GREEN)
    text(axes, 5.25, 2.6, "producer warpgroup", 11.5, weight="bold")
    text(axes, 5.25, 4.3, "1 thread asks for copies", 10.5)
    text(axes, 5.25, 6.4, f"{entry} → {down} registers", 10.5, color=GREY)
    for s in range(stages):
        cell(axes, 13.2, 1.6 + 6.4 / stages * s, 6.6, 6.4 / stages - 0.2, BLUE)
        text(axes, 16.5, 1.5 + 6.4 / stages * (s + 0.5), f"stage {s}", 10)
    height = 6.4 / consumers
    for c in range(consumers):
        frame(axes, 24.5, 1.6 + height * c, 15, height - 0.3, ORANGE)
        text(axes, 32, 1.6 + height * (c + 0.3), f"consumer warpgroup {c}: wgmma", 11, weight="bold")
        text(axes, 32, 1.6 + height * (c + 0.65), f"{entry} → {up} registers", 10.5, color=GREY)
    arrow(axes, (10.2, 3.4), (13.0, 3.4), BLUE)
    arrow(axes, (20.0, 3.4), (24.2, 3.4), BLUE)
    text(axes, 22.1, 2.7, "full", 10.5, color=BLUE)
    arrow(axes, (24.2, 6.6), (10.2, 6.6), GREEN, connectionstyle="arc3,rad=-0.28")
    text(axes, 17, 10.2, "empty: each consumer warp arrives when its products with a stage are done", 10.5)
    total = 128 * (down + consumers * up)
    return Drawing(
        figure,
        f"A block of {consumers + 1} warpgroups: one thread of the producer asks for copies into {stages} stages, which"
        f" the consumers multiply. Registers per thread: {down} and {up}, together {total:,} per block.",
    )


def multicast(rows: int, columns: int, depth: int = 64, itemsize: int = 2, sizes: bool = True) -> Drawing:
    """Two blocks of a cluster with tiles below each other: each fetches its rows of A, and half of B for both.

    sizes: with the KiB of each part.
    """
    positive(rows=rows, columns=columns, depth=depth, itemsize=itemsize)
    figure, axes = canvas(40, 12.4)
    a, b = (side * depth * itemsize / 1024 for side in (rows, columns))

    def block(y: float, number: int) -> None:
        frame(axes, 22, y, 17, 4.6, PURPLE)
        text(axes, 30.5, y + 0.8, f"block {number} of the cluster", 11, weight="bold")
        cell(axes, 23, y + 1.7, 6.5, 2.2, BLUE)
        text(axes, 26.25, y + 2.8, f"A{number}" + f": {a:g} KiB" * sizes, 10.5)
        for half in range(2):
            cell(axes, 30.5 + 4 * half, y + 1.7, 3.8, 2.2, (SKY, GREEN)[half])
            text(axes, 32.4 + 4 * half, y + 2.8, f"B{half}" + f": {b / 2:g} KiB" * sizes, 9.5)

    for number, y in ((0, 0.6), (1, 6.2)):
        block(y, number)
        cell(axes, 1, y + 0.4, 6.5, 2.2, BLUE)
        text(axes, 4.25, y + 1.5, f"rows {number} of A", 10.5)
        cell(axes, 1, y + 2.9, 6.5, 1.5, (SKY, GREEN)[number])
        text(axes, 4.25, y + 3.65, f"half {number} of B", 10.5)
        arrow(axes, (7.6, y + 1.5), (22.8, y + 2.4), BLUE)
        for other, to in ((0, 0.6), (1, 6.2)):
            arrow(
                axes, (7.6, y + 3.65), (21.8, to + 3.7), (SKY, GREEN)[number], linewidth=1.6 if other == number else 1.2
            )
    text(axes, 4.25, 11.7, "L2 cache", 11, weight="bold")
    text(axes, 30.5, 11.7, "shared memory", 11, weight="bold")
    alone, shared = a + b, a + b / 2
    said = f"Two blocks with tiles of {rows}×{columns} share columns of B. Each asks for its own rows of A"
    if not sizes:
        return Drawing(figure, f"{said}, and for half of B, which goes to both.")
    return Drawing(
        figure,
        f"{said}, {a:g} KiB per slice, and for half of B, which goes to both: {shared:g} KiB per block and slice out of"
        f" L2, where a block alone reads {alone:g}.",
    )
