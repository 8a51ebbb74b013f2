"""A fusion of one's own and a placement: bytes with and without it, neighbourhoods of a layer, copies between sides."""

from collections.abc import Sequence

from ..report.plots import COLOURS
from .canvas import BLUE, GREY, INK, ORANGE, RED, SKY, Drawing, arrow, canvas, cell, frame, positive, text
from .hardware import quantity


def fused_pair(read: int, written: int, first: str = "conv", second: str = "hard_swish") -> Drawing:
    """Two kernels in a row, and one kernel that computes both: the tensors between them, as wide as their bytes.

    read: bytes that the first kernel reads; written: bytes that it writes, and the second reads and writes.
    """
    positive(read=read, written=written)
    figure, axes = canvas(40, 9.8)
    unit = 6.0 / max(read, written)

    def row(y: float, parts: Sequence[tuple[str, int]]) -> int:
        """Draw kernels (bytes 0) and tensors from left to right; the bytes that are moved."""
        x, moved = 0.4, 0
        for i, (words, size) in enumerate(parts):
            wide = size * unit if size else 6.6
            if size:
                cell(axes, x, y, wide, 1.8, SKY)
                text(axes, x + wide / 2, y + 2.5, quantity(size, "B"), 10, color=GREY)
                moved += size * (1 if i in (0, len(parts) - 1) else 2)
            else:
                frame(axes, x, y - 0.2, wide, 2.2, ORANGE, 0.3)
            text(axes, x + wide / 2, y + 0.9, words, 10.5)
            if i + 1 < len(parts):
                arrow(axes, (x + wide + 0.15, y + 0.9), (x + wide + 1.25, y + 0.9))
            x += wide + 1.4
        return moved

    two = row(1.7, [("in", read), (first, 0), ("sum", written), (second, 0), ("out", written)])
    one = row(6.4, [("in", read), (f"{first}_{second}", 0), ("out", written)])
    for y, count, moved in ((0.8, "two launches", two), (5.5, "one launch", one)):
        text(axes, 0.4, y, f"{count}: {quantity(moved, 'B')} of activations moved", 11, ha="left", weight="bold")
    return Drawing(
        figure,
        f"Two rows of kernels and tensors. Two launches: {first} reads {read:,} bytes and writes its sum,"
        f" {written:,} bytes; {second} reads the sum and writes as many bytes: {two:,} bytes are moved. One launch:"
        f" {first}_{second} reads {read:,} bytes and writes {written:,}: {one:,} bytes are moved.",
    )


def neighbours(chains: Sequence[tuple[str, Sequence[str], int | None]]) -> Drawing:
    """Chains of layers, one per row; a layer's output may have a second reader.

    chains: (title, names of the layers in order, index of the layer whose output another layer reads as well or None).
    ValueError for an index outside the chain.
    """
    figure, axes = canvas(40, 0.6 + sum(2.5 + (twice is not None) for _, _, twice in chains))
    said, y = [], 0.4
    for title, names, twice in chains:
        if twice is not None and not 0 <= twice < len(names):
            raise ValueError(f"chains: row {title!r} has no layer {twice}")
        text(axes, 0.4, y + 0.9, title, 12, ha="left", weight="bold")
        for i, name in enumerate(names):
            x = 2.4 + 7.4 * i
            colour = {"hard-swish": COLOURS["linear"], "add": COLOURS["add"]}.get(name, COLOURS["expand"])
            frame(axes, x, y, 6.0, 1.8, colour if name != "ReLU" else GREY, 0.3)
            text(axes, x + 3.0, y + 0.9, name, 10.5)
            if i + 1 < len(names):
                arrow(axes, (x + 6.1, y + 0.9), (x + 7.3, y + 0.9))
            if i == twice:
                axes.plot([x + 6.0, x + 6.6, x + 6.6], [y + 0.9, y + 0.9, y + 2.4], color=RED, linewidth=1.4)
                arrow(axes, (x + 6.6, y + 2.4), (x + 8.6, y + 2.4), RED)
                text(axes, x + 8.8, y + 2.45, "another layer reads it, too", 10, ha="left", color="#a34700")
        y += 2.5 + (twice is not None)
        also = "" if twice is None else f", and another layer reads the output of its {names[twice]}, too"
        said.append(f"{title}: {', then '.join(names)}{also}")
    return Drawing(figure, "Chains of layers. " + ". ".join(said) + ".")


def placement(on_gpu: Sequence[bool], reads: Sequence[Sequence[int]]) -> Drawing:
    """Steps in two lanes, CPU and GPU, and an arrow for each copy: where a step reads what lies on the other side only.

    on_gpu: of each step, in order. reads: for each step the steps whose output it reads, −1 for the network's input,
    which lies on the CPU, where the last output has to be. ValueError if they do not fit together.
    """
    count = len(on_gpu)
    if len(reads) != count or not count or any(not -1 <= one < i for i, some in enumerate(reads) for one in some):
        raise ValueError("reads must list, for each step, steps before it or -1")
    figure, axes = canvas(40, 9.6)
    lanes = {False: 1.0, True: 6.4}
    for gpu, y in lanes.items():
        text(axes, 0.4, y + 1.0, "GPU" if gpu else "CPU", 12, ha="left", weight="bold")
        axes.plot([3.0, 39.6], [y + 1.0, y + 1.0], color=GREY, linewidth=0.8, zorder=0)
    wide = 36.0 / (count + 2)
    place = {i: (3.4 + (i + 1) * wide, lanes[i >= 0 and i < count and on_gpu[i]]) for i in range(-1, count + 1)}
    for i, (x, y) in place.items():
        words = "input" if i < 0 else "output" if i == count else str(i)
        colour = SKY if i in (-1, count) else BLUE if on_gpu[i] else ORANGE
        cell(axes, x, y, wide - 0.7, 2.0, "#ffffff", alpha=1.0)
        cell(axes, x, y, wide - 0.7, 2.0, colour)
        text(axes, x + (wide - 0.7) / 2, y + 1.0, words, 10.5)
    sides = {i: {gpu} for i, gpu in enumerate([*on_gpu, False])} | {-1: {False}}
    copies: list[tuple[int, int]] = []
    for i, some in enumerate([*reads, [count - 1]]):
        gpu = bool(on_gpu[i]) if i < count else False
        for one in some:
            if gpu not in sides[one]:
                sides[one].add(gpu)
                copies.append((one, i))
    for one, i in copies:
        (x0, y0), (x1, y1) = place[one], place[i]
        down = y1 > y0
        start = (x0 + (wide - 0.7) * 0.75, y0 + 2.05 if down else y0 - 0.05)
        arrow(axes, start, (x1 + (wide - 0.7) * 0.25, y1 - 0.1 if down else y1 + 2.1), INK)
    text(axes, 39.6, 4.7, f"{len(copies)} copies", 11, ha="right", weight="bold")
    lists = {
        name: ", ".join(str(i) for i in range(count) if on_gpu[i] == gpu) for name, gpu in (("GPU", 1), ("CPU", 0))
    }
    moved = "; ".join(
        f"from {'the input' if a < 0 else f'step {a}'} to {'the output' if b == count else f'step {b}'}"
        for a, b in copies
    )  # fmt: skip
    return Drawing(
        figure,
        f"Two lanes of steps. On the GPU: {lists['GPU'] or 'none'}. On the CPU: {lists['CPU'] or 'none'}, and the"
        f" network's input and output. Arrows between the lanes are {len(copies)} copies: {moved or 'none'}.",
    )
