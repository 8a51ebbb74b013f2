"""Fusions and placements: bytes with and without one, a tile of a fused block, a cluster, copies between sides."""

from collections.abc import Sequence

from ..optimize.generate import Block, Geometry, Tile
from ..report.plots import COLOURS
from .canvas import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, Drawing, arrow, canvas, cell, frame, positive, text
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


def fused_tile(block: Block, tile: Tile, itemsize: int = 2) -> Drawing:
    """One tile of a fused block: where it lies in the image, and what a thread block keeps of it.

    The names of Tile's fields stand beside what they measure. Sizes of boxes are those of Geometry, in KiB.
    itemsize: bytes per element. ValueError for a tile that cuts no rectangle out of one image, or does not fit.
    """
    g = Geometry(block, tile, itemsize)
    if tile.images != 1 or tile.tile_h > g.out_h or tile.tile_w > g.out_w:
        raise ValueError(f"one tile must lie in {g.out_h}×{g.out_w} outputs, got {tile}")
    figure, axes = canvas(40, 19.4)
    side = 9.2 / max(block.height, block.width)
    left, top = 0.8, 2.4
    text(axes, 0.4, 0.8, f"hidden, {block.height}×{block.width} pixels", 11.5, ha="left", weight="bold")
    cell(axes, left, top, side * block.width, side * block.height)
    wide, high = side * tile.tile_w * block.stride, side * tile.tile_h * block.stride
    row, column = (min(1, -(-size // part) - 1) for size, part in ((g.out_h, tile.tile_h), (g.out_w, tile.tile_w)))
    x, y = left + column * wide, top + row * high
    rim_w, rim_h = (0 if real == whole else side for real, whole in ((g.real_w, block.width), (g.real_h, block.height)))
    cell(axes, x - rim_w, y - rim_h, side * g.real_w, side * g.real_h, ORANGE)
    cell(axes, x, y, wide, high, BLUE)
    strip = high * tile.strip / tile.tile_h
    cell(axes, x, y, side * block.stride, strip, RED, alpha=0.9)
    under = [
        (BLUE, f"tile_h × tile_w = {tile.tile_h} × {tile.tile_w} outputs"),
        (ORANGE, f"with the halo: {g.real_h} × {g.real_w} pixels"),
        (RED, f"strip = {tile.strip} rows of outputs per lane"),
    ]
    for i, (colour, words) in enumerate(under):
        cell(axes, left, 12.6 + 1.5 * i, 0.9, 0.9, colour, alpha=0.6)
        text(axes, left + 1.3, 13.05 + 1.5 * i, words, 10, ha="left")
    kib = 1 / 1024
    parts = [
        (SKY, "x tile", f"{g.pixels_in} pixels", f"{block.channels} channels", g.x_bytes * kib),
        (SKY, "hidden", f"{g.pixels_in} pixels", f"slice = {tile.slice}", g.hidden_bytes * kib),
        (SKY, "depthwise", f"{g.pixels_out} pixels", f"slice = {tile.slice}", g.dw_bytes * kib),
        (
            ORANGE,
            "sums of y",
            f"{g.pixels_out} pixels",
            f"{block.outputs} channels",
            4 * g.pixels_out * g.o_padded * kib,
        ),
    ]
    text(axes, 14.4, 0.8, f"one thread block: warps = {tile.warps}, blocks = {tile.blocks} per multiprocessor", 11.5,
         ha="left", weight="bold")  # fmt: skip
    for i, (colour, name, pixels, channels, size) in enumerate(parts):
        x = 14.4 + 6.6 * i
        cell(axes, x, 2.4, 4.6, 5.2, colour)
        for j, words in enumerate((name, pixels, channels, f"{size:.1f} KiB")):
            text(axes, x + 2.3, 3.2 + 1.2 * j, words, 10, weight="bold" if j == 0 else "normal")
        if i < 3:
            arrow(axes, (x + 4.7, 5.0), (x + 6.5, 5.0))
            text(axes, x + 5.0, 8.6, ("expand", "depthwise", "project")[i], 10.5)
            arrow(axes, (x + 5.0, 10.2), (x + 5.0, 9.2), GREEN)
    for stage in range(g.stages):
        cell(axes, 18.2 + 0.4 * stage, 10.4 + 0.4 * stage, 14.8, 1.8, GREEN)
    where = f"weights of a slice: stages = {g.stages} × {g.stage_bytes * kib:.1f} KiB"
    text(axes, 25.6, 11.3, where, 10.5)
    axes.plot([14.4, 31.9], [1.85, 1.85], color=SKY, linewidth=3)
    axes.plot([34.2, 38.8], [1.85, 1.85], color=ORANGE, linewidth=3)
    text(axes, 36.9, 8.6, "in registers", 10.5)
    count = -(-block.hidden // tile.slice)
    text(axes, 14.4, 14.3, f"{block.hidden} hidden channels = {count} slices, split = {tile.split}", 11, ha="left")
    for i in range(count):
        rank = i // max(1, -(-count // tile.split))
        cell(axes, 14.4 + 24.4 / count * i, 15.1, 24.4 / count, 1.6, (SKY, ORANGE, GREEN, RED)[rank % 4])
    text(axes, 14.4, 17.7, "the thread block takes one slice after the other" if tile.split == 1 else
         f"one colour per block of a cluster of {tile.split}", 10.5, ha="left")  # fmt: skip
    return Drawing(
        figure,
        f"A tile of {tile.tile_h} × {tile.tile_w} outputs in an image of {block.height} × {block.width} hidden pixels;"
        f" with its halo it has {g.real_h} × {g.real_w}. In shared memory: x, {g.x_bytes * kib:.1f} KiB; hidden,"
        f" {tile.slice} of {block.hidden} channels, {g.hidden_bytes * kib:.1f} KiB; depthwise,"
        f" {g.dw_bytes * kib:.1f} KiB; {g.stages} stages of weights, {g.stage_bytes * kib:.1f} KiB each. In registers:"
        f" the sums of {g.pixels_out} pixels, {block.outputs} channels. Hidden channels come in {count} slices.",
    )


def split_channels(hidden: int, slice: int, split: int) -> Drawing:
    """A cluster: `split` blocks take the same tile, each its slices of the hidden channels, and exchange sums."""
    positive(hidden=hidden, slice=slice, split=split)
    count = -(-hidden // slice)
    each = -(-count // split)
    high = 2.4
    figure, axes = canvas(40, 1.6 + high * split)
    text(axes, 0.4, 0.7, f"{hidden} hidden channels, {count} slices of {slice}", 11, ha="left", weight="bold")
    text(axes, 39.6, 0.7, "distributed shared memory", 11, ha="right", weight="bold")
    colours = (SKY, ORANGE, GREEN, RED)
    for rank in range(split):
        y = 1.6 + high * rank
        text(axes, 0.4, y + 0.8, f"block {rank}", 11, ha="left")
        for i in range(count):
            own = i // each == rank
            cell(axes, 5 + 15 / count * i, y, 15 / count, 1.6, colours[rank % 4] if own else "#ffffff")
        arrow(axes, (20.3, y + 0.8), (22.3, y + 0.8))
        cell(axes, 22.5, y, 5, 1.6, colours[rank % 4])
        text(axes, 25, y + 0.8, "partial sums", 10)
        for other in range(split):
            arrow(axes, (27.6, y + 0.8), (32.3, 2.4 + high * other), GREY, linewidth=0.8)
        cell(axes, 32.5, y, 6.5, 1.6, colours[rank % 4])
        text(axes, 35.75, y + 0.8, f"part {rank} of y", 10)
    return Drawing(
        figure,
        f"A cluster of {split} blocks. Each computes up to {each} of {count} slices of {slice} hidden channels, then"
        f" sends every block its part of the partial sums; block r adds part r of {split} and writes that part of y.",
    )
