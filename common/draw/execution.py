"""Grids, blocks, warps and threads, and the elements that threads process."""

from itertools import product
from typing import Any

from .canvas import (
    BLUE,
    DARK_RED,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    RED,
    SKY,
    Drawing,
    arrow,
    canvas,
    cell,
    frame,
    positive,
    text,
)
from .card import WARP

_ROUNDS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)


def grid(blocks: int = 4, threads: int = 64, chosen: int = 1) -> Drawing:
    """A grid of blocks; the warps of block number `chosen`; its threads with threadIdx.x and index in the grid.

    threads: per block, a multiple of 32, at most 128. ValueError for other numbers.
    """
    positive(blocks=blocks, threads=threads)
    if threads % WARP or threads > 4 * WARP:
        raise ValueError(f"threads must be a multiple of {WARP}, at most {4 * WARP}, got {threads}")
    if not 0 <= chosen < blocks:
        raise ValueError(f"chosen must be a block from 0 to {blocks - 1}, got {chosen}")
    warps = threads // WARP
    figure, axes = canvas(37, 6.8 + 2.5 * warps)
    text(axes, 0.3, 0.8, f"grid: {blocks} blocks", ha="left", weight="bold")
    width = 36.2 / blocks
    for b in range(blocks):
        frame(axes, 0.4 + b * width, 1.6, width - 0.4, 1.8, ORANGE if b == chosen else GREY, 0.3)
        first = b * threads
        text(axes, 0.2 + (b + 0.5) * width, 2.1, f"blockIdx.x = {b}", 11)
        text(axes, 0.2 + (b + 0.5) * width, 2.9, f"indices {first} … {first + threads - 1}", 10, color=GREY)
    middle, top = 0.2 + (chosen + 0.5) * width, 4.6
    axes.plot([middle - width / 2 + 0.3, 0.4], [3.4, top], color=ORANGE, linewidth=1)
    axes.plot([middle + width / 2 - 0.3, 36.4], [3.4, top], color=ORANGE, linewidth=1)
    frame(axes, 0.4, top, 36, 1.9 + 2.5 * warps, ORANGE, 0.3)
    text(axes, 0.9, top + 0.7, f"block {chosen}: {threads} threads, {warps} warps of {WARP}", ha="left", weight="bold")
    for w in range(warps):
        _warp(axes, top + 1.5 + 2.5 * w, w, chosen, threads)
    return Drawing(
        figure,
        f"A grid of {blocks} blocks. Block {chosen} is drawn as {warps} warps of {WARP} threads. Above each thread is"
        f" threadIdx.x, from 0 to {threads - 1}, in it the index in the grid, from {chosen * threads} to"
        f" {chosen * threads + threads - 1}.",
    )


def _warp(axes: Any, y: float, warp: int, block: int, threads: int) -> None:
    """Draw the first eight threads of a warp, a gap, and its last four."""
    colour = (BLUE, GREEN, PURPLE, SKY)[warp]
    text(axes, 0.9, y + 1.25, f"warp {warp}", 11, ha="left", weight="bold")
    text(axes, 0.9, y + 0.1, "threadIdx.x", 10, ha="left", color=GREY)
    for place, lane in enumerate((*range(8), None, *range(WARP - 4, WARP))):
        x = 5.3 + 2.35 * place
        if lane is None:
            text(axes, x + 1.2, y + 1.2, "…", 14)
            continue
        thread = warp * WARP + lane
        text(axes, x + 1.17, y + 0.1, str(thread), 10, color=GREY)
        cell(axes, x, y + 0.6, 2.35, 1.3, colour)
        text(axes, x + 1.17, y + 1.25, str(block * threads + thread), 11)


def guard(n: int = 10, threads: int = 4) -> Drawing:
    """Blocks of `threads` threads over an array of n elements; some threads of the last block have no element."""
    positive(n=n, threads=threads)
    blocks = -(-n // threads)
    total = blocks * threads
    if total > 40:
        raise ValueError(f"n must fit in 40 threads of whole blocks, got {n} with blocks of {threads}")
    figure, axes = canvas(total + 3.5, 4.9)
    text(axes, 3.1, 1.7, "threads", ha="right", weight="bold")
    text(axes, 3.1, 4.1, "array", ha="right", weight="bold")
    for b in range(blocks):
        frame(axes, 3.3 + b * threads + 0.06, 0.35, threads - 0.12, 2.0, ORANGE, 0.15)
        text(axes, 3.3 + (b + 0.5) * threads, 0.75, f"block {b}", 10)
    for i in range(total):
        x, inside = 3.3 + i, i < n
        cell(axes, x + 0.12, 1.2, 0.76, 0.9, BLUE if inside else RED)
        text(axes, x + 0.5, 1.65, str(i), 10)
        if inside:
            arrow(axes, (x + 0.5, 2.1), (x + 0.5, 3.6), BLUE)
            cell(axes, x, 3.65, 1, 0.9)
            text(axes, x + 0.5, 4.1, f"[{i}]", 10)
        else:
            text(axes, x + 0.5, 2.9, "×", 16, color=RED, weight="bold")
    if total > n:
        text(axes, 3.3 + (n + total) / 2, 4.1, f"i < {n}\nis false", 10, color=DARK_RED)
    spare = f" The threads from {n} to {total - 1} have no element." if total > n else ""
    return Drawing(
        figure,
        f"{blocks} blocks of {threads} threads over an array of {n} elements: thread i takes element i.{spare}",
    )


def matrix(height: int = 5, width: int = 7, block: tuple[int, int] = (4, 2)) -> Drawing:
    """A grid of blocks of block[0] × block[1] threads (x, y) over a matrix of height × width elements."""
    positive(height=height, width=width, block_x=block[0], block_y=block[1])
    across, down = -(-width // block[0]), -(-height // block[1])
    columns, rows = across * block[0], down * block[1]
    if columns > 24 or rows > 12:
        raise ValueError(f"the grid must be at most 24 × 12 threads, got {columns} × {rows}")
    figure, axes = canvas(18, rows * 0.8 + down * 0.7 + 2.4)
    left, top, wide, high = 4.2, 1.5, (12.4 - 0.3 * across) / columns, 0.8
    text(axes, left + 6, 0.4, "x: columns  →", 10)
    middle = top + (rows * high + down * 0.7) / 2
    text(axes, left - 0.6, middle, "y: rows  ↓", 10, ha="right")
    for b, c in product(range(across), range(down)):
        x, y = left + b * (block[0] * wide + 0.3), top + c * (block[1] * high + 0.7)
        frame(axes, x, y, block[0] * wide, block[1] * high + 0.55, ORANGE, 0.1)
        text(axes, x + block[0] * wide / 2, y + 0.28, f"block ({b}, {c})", 10, weight="bold")
    for row, column in product(range(rows), range(columns)):
        inside = row < height and column < width
        x = left + column * wide + 0.3 * (column // block[0])
        y = top + row * high + 0.7 * (row // block[1]) + 0.5
        cell(axes, x + 0.05, y + 0.04, wide - 0.1, high - 0.08, BLUE if inside else PAPER)
        words, colour = (str(row * width + column), INK) if inside else ("×", DARK_RED)
        text(axes, x + wide / 2, y + high / 2, words, 10 if inside else 13, color=colour)
        if column == 0:
            text(axes, left - 0.15, y + high / 2, str(row), 10, color=GREY, ha="right")
        if row == 0:
            text(axes, x + wide / 2, top - 0.25, str(column), 10, color=GREY)
    notes = (
        f"in a cell: row · {width} + column.  ×: a thread outside of the matrix.\n"
        "block (x, y): the block with blockIdx.x = x and blockIdx.y = y"
    )
    text(axes, left + 6, top + rows * high + down * 0.7 + 0.45, notes, 10)
    return Drawing(
        figure,
        f"A matrix of {height} rows and {width} columns is covered by {down} rows and {across} columns of blocks. Each"
        f" block has {block[1]} rows and {block[0]} columns of threads. In each cell stands the index row · {width} +"
        " column; threads beyond the last row or column are crossed out.",
    )


def grid_stride(n: int = 20, threads: int = 8) -> Drawing:
    """An array of n elements in memory order, each with the thread that processes it, coloured by iteration."""
    positive(n=n, threads=threads)
    rounds = -(-n // threads)
    if n > 36 or rounds > len(_ROUNDS):
        raise ValueError(f"n must be at most 36 elements in {len(_ROUNDS)} rounds, got {n} with {threads} threads")
    figure, axes = canvas(n + 4.0, 3.9)
    text(axes, 3.4, 1.5, "element", 10, ha="right")
    text(axes, 3.4, 2.5, "thread", 10, ha="right", weight="bold")
    for i in range(n):
        text(axes, 4.0 + i, 1.5, str(i), 10, color=GREY)
        cell(axes, 3.5 + i, 2.0, 1, 1, _ROUNDS[i // threads])
        text(axes, 4.0 + i, 2.5, str(i % threads), 11)
    for r in range(rounds):
        first, last = r * threads, min(n, (r + 1) * threads)
        text(axes, 3.5 + (first + last) / 2, 0.6, f"round {r}", 11, weight="bold")
    text(axes, 3.5 + n / 2, 3.5, f"the next element of a thread is {threads} further: the number of all threads", 10)
    return Drawing(
        figure,
        f"{n} elements and {threads} threads. In round 0 the threads 0 to {threads - 1} take the elements 0 to"
        f" {threads - 1}, in each further round the next {threads}, until element {n - 1}.",
    )
