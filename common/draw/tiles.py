"""Tiles of a matrix product: of blocks, warps and threads; the words that lanes load; two buffers on a timeline."""

from collections.abc import Mapping, Sequence

from .canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, Drawing, arrow, canvas, cell, positive, text

FACTOR_A, FACTOR_B, SUMS = ORANGE, GREEN, BLUE  # colours of A, B and C in all drawings of products


def product_tiles(
    block: tuple[int, int] = (128, 128), depth: int = 8, warp: tuple[int, int] = (64, 32), thread: int = 8,
    lane: int = 5,
) -> Drawing:  # fmt: skip
    """One slice of a product: the block's tiles of A, B and C, its warps' tiles, and one lane's elements.

    block: rows and columns of C per block. depth: of a slice along K. warp: rows and columns per warp. thread: rows and
    columns per thread, in groups of four that lie apart. lane: the one that is drawn.
    """
    (bm, bn), (wm, wn) = block, warp
    positive(depth=depth, thread=thread)
    if bm % wm or bn % wn or wm * wn != 32 * thread * thread or thread % 4:
        raise ValueError(f"warps of {wm} × {wn} with 32 threads of {thread} × {thread} must fill {bm} × {bn}")
    across, groups = wn // thread, thread // 4
    figure, axes = canvas(40, 19.4)
    left, top, size = 3.2, 5.0, 12.8
    thin, sx, sy = 1.6, size / bn, size / bm
    cell(axes, left - thin - 0.5, top, thin, size, FACTOR_A)
    cell(axes, left, top - thin - 0.5, size, thin, FACTOR_B)
    text(axes, left - thin - 0.9, top + size / 2, f"A: {bm} × {depth}, in shared memory", 11, rotation=90)
    text(axes, left + size / 2, top - thin - 1.1, f"B: {depth} × {bn}, in shared memory", 11)
    for i in range(bm // wm):
        for j in range(bn // wn):
            chosen = (i, j) == (0, 1)
            cell(axes, left + j * wn * sx, top + i * wm * sy, wn * sx, wm * sy, SUMS, alpha=0.55 if chosen else 0.15)
            number = f"warp {i * (bn // wn) + j}"
            text(axes, left + (j + 0.5) * wn * sx, top + (i + 0.5) * wm * sy, number, 10)
    cell(axes, left - thin - 0.5, top, thin, wm * sy, FACTOR_A, alpha=0.7)
    cell(axes, left + wn * sx, top - thin - 0.5, wn * sx, thin, FACTOR_B, alpha=0.7)
    text(axes, left + size / 2, top + size + 0.8, f"C: one block, {bm} × {bn}", 11, weight="bold")

    right, down, high = 22.8, 5.0, 12.8
    ux, uy = 14.0 / wn, high / wm
    cell(axes, right, down, 14.0, high, SUMS, alpha=0.08)
    for other in range(32):
        for i in range(groups):
            for j in range(groups):
                row = other // across * 4 + i * 4 * (wm // thread)
                col = other % across * 4 + j * 4 * across
                mine = other == lane
                cell(axes, right + col * ux, down + row * uy, 4 * ux, 4 * uy, SUMS, alpha=0.75 if mine else 0.0)
                if mine or (i, j) == (0, 0):
                    words = str(other)
                    text(axes, right + (col + 2) * ux, down + (row + 2) * uy, words, 10, color="white" if mine else INK)
    for i in range(groups):
        row = lane // across * 4 + i * 4 * (wm // thread)
        cell(axes, right - 2.1, down + row * uy, 1.6, 4 * uy, FACTOR_A, alpha=0.8)
        col = lane % across * 4 + i * 4 * across
        cell(axes, right + col * ux, down - 2.1, 4 * ux, 1.6, FACTOR_B, alpha=0.8)
    text(axes, right + 7.0, down - 3.0, "one k: a lane loads these, in 16-byte loads", 11)
    words = f"one warp, {wm} × {wn}: lane {lane} has {groups * groups} squares of 4 × 4"
    text(axes, right + 7.0, down + high + 0.8, words, 11, weight="bold")
    arrow(axes, (left + 2 * wn * sx, top + 0.5), (right - 2.6, down + 0.5), GREY)
    return Drawing(
        figure,
        f"Left, a block's {bm} × {bn} elements of C with its tiles of A, {bm} × {depth}, and of B, {depth} × {bn}. C is"
        f" divided among {bm * bn // (wm * wn)} warps of {wm} × {wn}. Right, the tile of one warp: each of 32 lanes has"
        f" {groups * groups} squares of 4 × 4 elements, {wm // 2} rows and {wn // 2} columns apart. For one k a lane"
        f" loads {thread} numbers of A and {thread} of B and makes {thread * thread} products.",
    )


def lane_words(patterns: Mapping[str, Sequence[int]]) -> Drawing:
    """The words that the first eight lanes of a warp load, 16 bytes each, in 32 banks of shared memory.

    patterns: by title, the first word that each of the eight lanes loads, multiples of 4 below 64.
    """
    if not patterns:
        raise ValueError("patterns must hold at least one")
    for title, firsts in patterns.items():
        if len(firsts) != 8 or any(first % 4 or not 0 <= first < 64 for first in firsts):
            raise ValueError(f"{title}: eight multiples of 4 below 64, got {list(firsts)}")
    figure, axes = canvas(40, 5.4 * len(patterns) + 1.0, 0.8)
    left, wide = 5.2, 1.06
    said = []
    for i, (title, firsts) in enumerate(patterns.items()):
        top = 5.4 * i + 1.6
        text(axes, left, top - 0.9, title, 11, ha="left", weight="bold")
        owners: dict[int, list[int]] = {}
        for lane, first in enumerate(firsts):
            for word in range(first, first + 4):
                owners.setdefault(word, []).append(lane)
        for word in range(64):
            y, x = top + 1.5 * (word // 32), left + word % 32 * wide
            cell(axes, x, y, wide, 1.2, GREEN if word in owners else "#ffffff")
            if word in owners and word % 4 == 0:
                text(axes, x + 2 * wide, y + 0.6, ", ".join(map(str, owners[word])), 10)
        for row in range(2):
            text(axes, left - 0.3, top + 1.5 * row + 0.6, f"words {32 * row}–{32 * row + 31}", 10, ha="right")
        fullest = max(sum(1 for word in owners if word % 32 == bank) for bank in range(32))
        count = f"{fullest} wavefront{'s' if fullest > 1 else ''} for these 8 lanes"
        text(axes, left + 32 * wide, top - 0.9, count, 11, ha="right")
        said.append(f"{title}: {count}, {len(owners)} different words in {len({w % 32 for w in owners})} banks")
    base = 5.4 * len(patterns) - 0.4
    for bank in (0, 8, 16, 24, 31):
        text(axes, left + (bank + 0.5) * wide, base, f"bank {bank}", 10, color=GREY)
    return Drawing(
        figure,
        "Words of shared memory in two rows of 32 banks; a box with lane numbers is loaded by these lanes. "
        + "; ".join(said)
        + ".",
    )


def transposed_tile(rows: int = 8, depth: int = 8, row: int = 2) -> Drawing:
    """How a tile of A turns on its way into shared memory: four k of a row become a column, four rows lie side by side.

    row: the row whose first four numbers are followed.
    """
    positive(rows=rows, depth=depth)
    if rows % 4 or depth % 4 or not 0 <= row < rows:
        raise ValueError(f"rows and depth must be multiples of 4 and row below rows, got {rows}, {depth}, {row}")
    figure, axes = canvas(40, 1.35 * max(rows, depth) + 5.4, 0.85)
    unit, top = 1.35, 3.2
    left, right = 3.4, 24.4
    for r in range(rows):
        for k in range(depth):
            cell(axes, left + k * unit, top + r * unit, unit, unit, FACTOR_A if r == row and k < 4 else "#ffffff")
            loaded = FACTOR_A if r == row and k < 4 else "#ffffff"
            cell(axes, right + r * unit, top + k * unit, unit, unit, loaded)
    first = row // 4 * 4
    axes.plot(
        [right + first * unit, right + (first + 4) * unit, right + (first + 4) * unit, right + first * unit,
         right + first * unit],
        [top + (depth - 2) * unit] * 2 + [top + (depth - 1) * unit] * 2 + [top + (depth - 2) * unit],
        color=PURPLE, linewidth=2.6,
    )  # fmt: skip
    for k in range(4):
        text(axes, left + (k + 0.5) * unit, top + (row + 0.5) * unit, f"k{k}", 10)
        text(axes, right + (row + 0.5) * unit, top + (k + 0.5) * unit, f"k{k}", 10)
    text(axes, left + depth * unit / 2, top - 1.7, "A in global memory: rows along k", 11, weight="bold")
    text(axes, left + depth * unit / 2, top - 0.7, "one 16-byte load: four k of a row", 11)
    text(axes, right + rows * unit / 2, top - 1.7, "As[k][row] in shared memory", 11, weight="bold")
    text(axes, right + rows * unit / 2, top - 0.7, "four 4-byte stores, one per k", 11)
    arrow(axes, (left + depth * unit + 0.4, top + (row + 0.5) * unit), (right - 0.4, top + 2.0 * unit), FACTOR_A)
    text(axes, left - 0.3, top + (row + 0.5) * unit, f"row {row}", 10, ha="right")
    below = "later, one 16-byte load: four rows of one k"
    text(axes, right + rows * unit / 2, top + depth * unit + 0.9, below, 11, color="#7d3c98")
    return Drawing(
        figure,
        f"Left, {rows} rows of A with {depth} k each; a thread loads four neighbouring k of row {row} in one 16-byte"
        " load. Right, As, in which a row is one k: the same four numbers stand below each other, stored one by one."
        " A frame marks four neighbouring rows of one k, which a thread later loads in one 16-byte load.",
    )


def buffers(slices: int = 4, load: float = 2.0, multiply: float = 3.0) -> Drawing:
    """One block's slices on a timeline, with one buffer in shared memory and with two.

    load, multiply: their lengths in any unit; multiply should be the longer one.
    """
    positive(slices=slices)
    if not 0 < load <= multiply:
        raise ValueError(f"load must be positive and at most multiply, got {load} and {multiply}")
    one, two = slices * (load + multiply), load + slices * multiply
    figure, axes = canvas(40, 12.4, 0.85)
    left, scale = 6.6, 32.4 / one
    colours = (SKY, PURPLE)

    def box(x: float, y: float, length: float, words: str, buffer: int) -> None:
        cell(axes, left + x * scale, y, length * scale, 1.3, colours[buffer], alpha=0.45)
        text(axes, left + (x + length / 2) * scale, y + 0.65, words, 10)

    text(axes, left, 0.7, f"one buffer: {slices} slices take {one:g}", 11, ha="left", weight="bold")
    text(axes, left, 6.3, f"two buffers: {slices} slices take {two:g}", 11, ha="left", weight="bold")
    for y, words in ((2.2, "copy"), (3.9, "multiply"), (7.8, "copy"), (9.5, "multiply")):
        text(axes, left - 0.4, y, words, 11, ha="right")
    for i in range(slices):
        start = i * (load + multiply)
        box(start, 1.5, load, f"slice {i}", 0)
        box(start + load, 3.2, multiply, f"slice {i}", 0)
        for at in (start + load, start + load + multiply):
            axes.plot([left + at * scale] * 2, [1.3, 4.7], color=INK, linewidth=1.6)
        begin = 0 if i == 0 else load + (i - 1) * multiply
        box(begin, 7.1, load, f"slice {i}", i % 2)
        box(load + i * multiply, 8.8, multiply, f"slice {i}", i % 2)
        axes.plot([left + (load + i * multiply) * scale] * 2, [6.9, 10.3], color=INK, linewidth=1.6)
    text(axes, left, 11.4, "black line: barrier. Colours: the two buffers.", 10, ha="left", color=GREY)
    return Drawing(
        figure,
        "Timelines of one block. With one buffer each slice is copied, then a barrier, then multiplied, then a barrier:"
        f" {slices} slices take {one:g} units. With two buffers the copy of the next slice runs while this one is"
        f" multiplied, with one barrier per slice: {two:g} units.",
    )
