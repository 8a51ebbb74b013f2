"""Drawings of a depthwise convolution: rows in registers, tiles with a halo, which output reads which pixel, sums."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from ..report.plots import COLOURS
from .canvas import BLUE, DARK_GREEN, GREEN, GREY, INK, PAPER, PURPLE, SKY, Drawing, arrow, canvas, cell, positive, text

_OUT = COLOURS["depthwise"]


def sliding_rows(outputs: int = 4, kernel: int = 3) -> Drawing:
    """A thread that walks down a column: in each step it loads one row of inputs and holds the rows before it.

    outputs: rows of the output that are drawn, one per step, at most 6. kernel: 2 to 5.
    """
    positive(outputs=outputs, kernel=kernel)
    if outputs > 6 or not 2 <= kernel <= 5:
        raise ValueError(f"at most 6 outputs and a kernel of 2 to 5, got {outputs} and {kernel}")
    rows, side = outputs + kernel - 1, 1.0
    step = kernel * side + 3.2
    figure, axes = canvas(step * outputs + 1.0, rows * side + 3.6)
    for n in range(outputs):
        left = 0.8 + n * step
        text(axes, left + (kernel * side + 1.8) / 2, 0.6, f"step {n}: output row {n}", 11, weight="bold")
        for h, w in product(range(rows), range(kernel)):
            held, new = n <= h < n + kernel - 1, h == n + kernel - 1
            first = n == 0 and held
            colour = SKY if new or first else GREEN if held else PAPER
            cell(axes, left + w * side, 1.3 + h * side, side, side, colour)
        y = 1.3 + (n + (kernel - 1) / 2) * side
        cell(axes, left + kernel * side + 0.9, y, side, side, _OUT)
        arrow(axes, (left + kernel * side + 0.05, y + 0.5), (left + kernel * side + 0.85, y + 0.5))
    y = 1.3 + rows * side + 0.6
    for x, colour, words in (
        (0.8, SKY, "loaded in this step"), (9.2, GREEN, "in registers from before"), (18.8, _OUT, "written"),
    ):  # fmt: skip
        cell(axes, x, y, 0.8, 0.8, colour)
        text(axes, x + 1.1, y + 0.4, words, 10.5, ha="left")
    return Drawing(
        figure,
        f"One thread computes {outputs} outputs of a column, one below the other, with a kernel of {kernel} × {kernel}."
        f" In its first step it loads {kernel} rows of {kernel} inputs. In each later step it loads one row of {kernel}"
        f" inputs; the other {kernel - 1} rows are in its registers from the steps before.",
    )


def halo_share(tile_h: int, tile_w: int, stride: int = 1, kernel: int = 3) -> float:
    """How many inputs a tile of outputs needs, over the inputs that it would need without a halo."""
    rows, columns = ((side - 1) * stride + kernel for side in (tile_h, tile_w))
    return rows * columns / (tile_h * tile_w * stride * stride)


def halos(tiles: Sequence[tuple[int, int]] = ((4, 4), (8, 8), (8, 16)), kernel: int = 3) -> Drawing:
    """Tiles of outputs (height, width) at stride 1, each with the halo of inputs around it. At most 3 tiles."""
    positive(kernel=kernel, **{f"side_{n}": side for n, side in enumerate(s for tile in tiles for s in tile)})
    if not 1 <= len(tiles) <= 3:
        raise ValueError(f"from 1 to 3 tiles, got {len(tiles)}")
    rim, gap = kernel - 1, 5
    wide = sum(tile[1] + rim for tile in tiles) + gap * len(tiles)
    high = max(tile[0] for tile in tiles) + rim
    figure, axes = canvas(wide, high + 6.2)
    x = gap / 2
    for tile_h, tile_w in tiles:
        inputs, own = (tile_h + rim) * (tile_w + rim), tile_h * tile_w
        top = 2.2 + (high - tile_h - rim) / 2
        for h, w in product(range(tile_h + rim), range(tile_w + rim)):
            inside = rim // 2 <= h < rim // 2 + tile_h and rim // 2 <= w < rim // 2 + tile_w
            cell(axes, x + w, top + h, 1, 1, _OUT if inside else SKY)
        middle = x + (tile_w + rim) / 2
        text(axes, middle, 1.0, f"{tile_h} × {tile_w} outputs", 11, weight="bold")
        text(axes, middle, high + 3.4, f"{inputs} inputs", 10.5)
        text(axes, middle, high + 4.8, f"{own} + halo of {inputs - own}", 10.5, color=GREY)
        x += tile_w + rim + gap
    words = "; ".join(
        f"a tile of {h} × {w} outputs needs {(h + rim) * (w + rim)} inputs, of which {(h + rim) * (w + rim) - h * w}"
        " are its halo"
        for h, w in tiles
    )
    return Drawing(figure, f"Tiles with the rim of inputs around them, for a kernel of {kernel} × {kernel}: {words}.")


def register_tile(tile_h: int = 2, tile_w: int = 2, kernel: int = 3) -> Drawing:
    """A thread's tile of outputs and the inputs that it holds; the windows of its first and last output."""
    positive(tile_h=tile_h, tile_w=tile_w, kernel=kernel)
    if max(tile_h, tile_w) > 8 or kernel > 5:
        raise ValueError(f"at most 8 × 8 outputs and a kernel of 5, got {tile_h} × {tile_w} and {kernel}")
    rows, columns = tile_h + kernel - 1, tile_w + kernel - 1
    side = 1.3
    figure, axes = canvas(columns * side * 1.5 + tile_w * side + 16, rows * side + 3.2)
    left, top = 1.0, 1.9
    text(axes, left + columns * side / 2, 1.0, f"{rows} × {columns} inputs, loaded once", 11, weight="bold")
    for h, w in product(range(rows), range(columns)):
        cell(axes, left + w * side, top + h * side, side, side, SKY)
    for (h, w), colour in (((0, 0), BLUE), ((tile_h - 1, tile_w - 1), PURPLE)):
        x, y = left + w * side + 0.08, top + h * side + 0.08
        size = kernel * side - 0.16
        axes.plot([x, x + size, x + size, x, x], [y, y, y + size, y + size, y], color=colour, linewidth=2.6)
    right, middle = left + columns * side + 5.0, top + (rows - tile_h) * side / 2
    arrow(axes, (left + columns * side + 0.5, top + rows * side / 2), (right - 0.6, top + rows * side / 2))
    text(axes, right + tile_w * side / 2, middle - 0.9, f"{tile_h} × {tile_w} outputs", 11, weight="bold")
    for h, w in product(range(tile_h), range(tile_w)):
        x, y = right + w * side, middle + h * side
        cell(axes, x, y, side, side, _OUT)
        if (h, w) in ((0, 0), (tile_h - 1, tile_w - 1)):
            colour = BLUE if (h, w) == (0, 0) else PURPLE
            axes.plot([x, x + side, x + side, x, x], [y, y, y + side, y + side, y], color=colour, linewidth=2.6)
    loads = rows * columns / (tile_h * tile_w)
    words = f"{rows * columns} loads for {tile_h * tile_w} outputs:\n{loads:.2f} loads per output"
    text(axes, right + tile_w * side + 1.0, top + rows * side / 2, words, 11, ha="left")
    return Drawing(
        figure,
        f"A thread holds {rows} × {columns} inputs in registers and computes {tile_h} × {tile_w} outputs from them. The"
        f" window of the first output is at the top left, that of the last at the bottom right; windows overlap, and"
        f" each input is loaded once: {loads:.2f} loads per output instead of {kernel * kernel}.",
    )


def taps(pixels: int = 9, kernel: int = 3, strides: Sequence[int] = (1, 2), pad: int = 1) -> Drawing:
    """Which output reads which pixel with which tap, in one dimension, as one matrix per stride."""
    positive(pixels=pixels, kernel=kernel)
    if pixels > 10 or not 1 <= len(strides) <= 2:
        raise ValueError(f"at most 10 pixels and 2 strides, got {pixels} and {len(strides)}")
    colours = (BLUE, GREEN, PURPLE, _OUT, SKY)
    outputs = [(pixels + 2 * pad - kernel) // stride + 1 for stride in strides]
    each = pixels + 6.0
    figure, axes = canvas(each * len(strides), max(outputs) + 4.0)
    readers = []
    for n, (stride, count) in enumerate(zip(strides, outputs, strict=True)):
        left = n * each + 4.6
        text(axes, left + pixels / 2, 0.6, f"stride {stride}", 12, weight="bold")
        text(axes, left - 0.2, 1.6, "o ↓    i →", 10, ha="right", color=GREY)
        for i in range(pixels):
            text(axes, left + i + 0.5, 1.6, str(i), 10, color=GREY)
        for o, i in product(range(count), range(pixels)):
            tap = i - o * stride + pad
            hit = 0 <= tap < kernel
            cell(axes, left + i, 2.2 + o, 1, 1, colours[tap % len(colours)] if hit else PAPER)
            if hit:
                text(axes, left + i + 0.5, 2.7 + o, f"w{tap}", 11)
        for o in range(count):
            text(axes, left - 0.4, 2.7 + o, str(o), 10, ha="right", color=GREY)
        readers.append([sum(0 <= i - o * stride + pad < kernel for o in range(count)) for i in range(pixels)])
    return Drawing(
        figure,
        "Matrices whose rows are outputs and whose columns are pixels; a coloured cell names the weight with which the"
        " output reads the pixel. "
        + " ".join(
            f"At stride {stride} the pixels have {', '.join(map(str, row))} readers."
            for stride, row in zip(strides, readers, strict=True)
        ),
    )


def sum_levels(products: int, threads: int, blocks: int) -> Drawing:
    """How one long sum is shared: products per thread, lanes, warps, blocks; how many follow one another at each level.

    products: terms of the sum. threads: per block, a multiple of 32. blocks: that share the sum, at most 32: lanes of
    a second launch add up what they found.
    """
    positive(products=products, threads=threads, blocks=blocks)
    if threads % 32 or blocks > 32:
        raise ValueError(f"threads must be a multiple of 32, blocks at most 32, got {threads} and {blocks}")
    warps = threads // 32
    serial, last = -(-products // (threads * blocks)), (blocks - 1).bit_length()
    levels = [
        ("registers", f"{threads * blocks:,} threads", f"{serial:,} products each,\none after the other", serial),
        ("shuffles", "32 lanes → 1 per warp", "5 steps", 5),
        ("shared memory", f"{warps} warps → 1 per block", f"{warps} additions,\none after the other", warps),
        ("second launch", f"{blocks} blocks → 1 result", f"{last} steps of\nshuffles", last),
    ]
    levels = levels[: 4 if blocks > 1 else 3]
    figure, axes = canvas(30, 2.6 * len(levels) + 2.2)
    note = f"each box is a product; two stand for the {serial:,} of a thread"
    text(axes, 10.6, 0.7, note, 10, color=GREY)
    for n, (name, who, how, _) in enumerate(levels):
        y, dots = 0.9 + 2.6 * n, (16, 8, 4, 2)[n]
        text(axes, 0.5, y + 0.7, name, 12, ha="left", weight="bold")
        following = dots // 2 if n + 1 < len(levels) else 1
        group = dots // following
        for k in range(dots):
            x, step = 5.6 + 10.0 * (k + 0.5) / dots, 10.0 / dots
            target = 5.6 + 10.0 * (k // group + 0.5) / following
            if name in ("shuffles", "second launch") or k % group == group - 1:
                axes.plot([x, target], [y + 1.0, y + 3.0], color=GREEN, linewidth=1)
            else:  # one after the other: on to the next
                axes.plot([x + 0.25, x + step - 0.25], [y + 0.7, y + 0.7], color=GREEN, linewidth=1)
            cell(axes, x - 0.25, y + 0.4, 0.5, 0.6, BLUE)
        text(axes, 16.6, y + 0.7, who, 10.5, ha="left")
        text(axes, 23.4, y + 0.7, how, 10.5, ha="left", color=DARK_GREEN)
    y = 0.9 + 2.6 * len(levels)
    text(axes, 10.6, y + 0.8, "the sum", 11, color=INK)
    total = sum(level[3] for level in levels)
    return Drawing(
        figure,
        f"A sum of {products:,} products as a tree: "
        + "; ".join(f"{name}: {who}, {' '.join(how.split())}" for name, who, how, _ in levels)
        + f". The longest chain of additions has {total:,}. In the top row {note}.",
    )


def phases(stride: int = 2, kernel: int = 3, pad: int = 1) -> Drawing:
    """The pixels of one square of stride × stride, and for each the taps that some output reads it with."""
    positive(stride=stride, kernel=kernel)
    if stride > 3 or kernel > 3:
        raise ValueError(f"stride and kernel of at most 3, got {stride} and {kernel}")
    one = kernel + 1.2
    figure, axes = canvas(max(stride * one + 20.0, 24.0), stride * one + 1.8)
    counts = []
    for h, w in product(range(stride), range(stride)):
        left, top = 6.6 + w * one, 1.4 + h * one
        if h == 0:
            text(axes, left + kernel / 2, 0.7, f"column {w} mod {stride}", 10, color=GREY)
        if w == 0:
            text(axes, left - 0.4, top + kernel / 2, f"row {h} mod {stride}", 10, ha="right", color=GREY)
        count = 0
        for kh, kw in product(range(kernel), range(kernel)):
            hit = (h + pad - kh) % stride == 0 and (w + pad - kw) % stride == 0
            cell(axes, left + kw, top + kh, 1, 1, _OUT if hit else PAPER)
            count += hit
        counts.append(count)
    _note(axes, 7.6 + stride * one, 1.4 + stride * one / 2, stride)
    return Drawing(
        figure,
        f"For each of the {stride * stride} kinds of pixel at stride {stride}, the {kernel} × {kernel} taps, coloured"
        f" where an output reads such a pixel: {', '.join(map(str, counts))} taps, {sum(counts)} of"
        f" {kernel * kernel * len(counts)} in all.",
    )


def _note(axes: Any, x: float, y: float, stride: int) -> None:
    text(axes, x, y, f"one frame per pixel\nof a {stride} × {stride} square;\ncoloured: taps that\nread this pixel",
         10, ha="left")  # fmt: skip
