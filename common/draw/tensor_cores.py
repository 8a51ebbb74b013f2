"""What tensor cores need: fragments, rows of a tile in the banks of shared memory, a ring of buffers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..measure import pipeline
from .canvas import BLUE, GREEN, GREY, ORANGE, PAPER, PURPLE, Drawing, canvas, cell, positive, text

_MATRICES = (BLUE, ORANGE, GREEN, PURPLE)
BANKS = 8  # groups of four banks, 16 bytes each


def lane_of_a(row: int, column: int) -> tuple[int, int]:
    """(lane, register) that holds an element of the 16×16 factor of mma.m16n8k16."""
    return row % 8 * 4 + column % 8 // 2, row // 8 + column // 8 * 2


def lane_of_b(row: int, column: int) -> tuple[int, int]:
    """(lane, register) that holds an element of the 16×8 factor of mma.m16n8k16."""
    return column * 4 + row % 8 // 2, row // 8


def lane_of_d(row: int, column: int) -> tuple[int, int]:
    """(lane, register) that holds an element of the 16×8 sums of mma.m16n8k16."""
    return row % 8 * 4 + column // 2, row // 8 * 2 + column % 2


def _matrix(
    axes: Any, left: float, name: str, titles: tuple[str, str], size: tuple[int, int],
    holder: Callable[[int, int], tuple[int, int]], step: tuple[int, int] = (1, 1), apart: float = 2.6,
) -> None:  # fmt: skip
    """A matrix of an mma from x = left on: in each of its size cells the lane, coloured by register, and a legend.

    step: the rows and columns of a cell, for the numbers at its edges.
    """
    rows, columns = size
    text(axes, left + columns / 2, 0.6, titles[0], 12, weight="bold")
    text(axes, left + columns / 2, 1.4, titles[1], 10, color=GREY)
    for column in range(columns):
        text(axes, left + column + 0.5, 2.2, str(column * step[1]), 8, color=GREY)
    registers = set()
    for row in range(rows):
        text(axes, left - 0.5, 3.0 + row, str(row * step[0]), 8, color=GREY)
        for column in range(columns):
            lane, register = holder(row, column)
            registers.add(register)
            cell(axes, left + column, 2.5 + row, 1, 1, _MATRICES[register])
            text(axes, left + column + 0.5, 3.0 + row, str(lane), 9)
    for register in sorted(registers):
        x = left + columns / 2 + (register - (len(registers) - 1) / 2) * apart
        cell(axes, x - 0.95, 19.4, 0.7, 0.7, _MATRICES[register])
        text(axes, x + 0.55, 19.75, f"{name.lower()}[{register}]", 10)


def fragments() -> Drawing:
    """The three matrices of an mma with the lane that holds each element, coloured by register."""
    figure, axes = canvas(40, 21.6)
    left = 1.5
    for name, columns, holder, halves in (
        ("A", 16, lane_of_a, True), ("B", 8, lane_of_b, True), ("D", 8, lane_of_d, False)
    ):  # fmt: skip
        kind = "halves, two per register" if halves else "floats"
        titles = f"{name}: 16 × {columns}", kind
        _matrix(axes, left, name, titles, (16, columns), holder, apart=3.0 if columns == 16 else 2.6)
        left += columns + 2.4
    text(axes, 20, 21.0, "number: the lane that holds the element. colour: the lane's register", 10, color=GREY)
    return Drawing(
        figure,
        "Three grids with a lane's number in each element, coloured by register. A, 16 by 16, has four quarters of 8"
        " by 8, one per register; in a quarter four lanes share a row, with two neighbours each. B, 16 by 8, has two"
        " halves of 8 by 8; four lanes share a column. D, 16 by 8: four lanes share a row, with two neighbours each in"
        " two registers; its lower half is in two more registers.",
    )


def byte_fragments() -> Drawing:
    """The three matrices of mma.m16n8k32 with the lane that holds each word of four bytes, coloured by register."""
    figure, axes = canvas(40, 21.6)
    left = 2.2
    for name, size, (rows, columns), holder, words in (
        ("A", "16 × 32", (16, 8), lambda row, column: (row % 8 * 4 + column % 4, row // 8 + column // 4 * 2),
         "bytes: a cell is four columns"),
        ("B", "32 × 8", (8, 8), lambda row, column: (column * 4 + row % 4, row // 4), "bytes: a cell is four rows"),
        ("D", "16 × 8", (16, 8), lane_of_d, "int32"),
    ):  # fmt: skip
        step = {"A": (1, 4), "B": (4, 1), "D": (1, 1)}[name]
        _matrix(axes, left, name, (f"{name}: {size}", words), (rows, columns), holder, step)
        left += columns + 5.4
    text(axes, 20, 21.0, "number: the lane that holds the element. colour: the lane's register", 10, color=GREY)
    return Drawing(
        figure,
        "Three grids with a lane's number in each cell, coloured by register. A, 16 rows of 8 words of four bytes, has"
        " four quarters of 8 by 4, one per register; in a quarter four lanes share a row, with a word each. B, 8 words"
        " of four rows by 8 columns, has two halves; four lanes share a column. D, 16 by 8 int32, is that of the"
        " product of halves: four lanes share a row, with two neighbours each in two registers.",
    )


def ldmatrix(place: Callable[[int, int], int] = lambda row, piece: piece, units: int = 8, piece: int = 0) -> Drawing:
    """The first load of a 16×16 fragment from a tile in shared memory, by ldmatrix: one 8×8 matrix after the other.

    place(row, piece): where in its row a piece of 16 bytes lies. units: how many pieces' room a row has, padding
    included. piece: the first of the two pieces that the load takes from each of 16 rows.
    """
    positive(units=units)
    where = {(row, p): row * units + place(row, p) for row in range(16) for p in range(8)}
    if len(set(where.values())) < len(where) or any(not 0 <= place(row, p) < units for row, p in where):
        raise ValueError(f"place must give the 8 pieces of a row 8 different places from 0 to {units - 1}")
    lines = max(where.values()) // BANKS + 1
    loaded = {(row, piece + m // 2): m for m in range(4) for row in range(m % 2 * 8, m % 2 * 8 + 8)}
    figure, axes = canvas(40, 4.2 + lines)
    text(axes, 8.4, 0.6, "the tile in shared memory", 12, weight="bold")
    text(axes, 8.4, 1.5, "one line: 128 bytes, all 32 banks. number: a row that is loaded", 10, color=GREY)
    for quartet in range(BANKS):
        text(axes, 3.4 + 1.5 * quartet, 2.5, f"{4 * quartet} …", 9, color=GREY)
    text(axes, 2.3, 2.5, "banks", 9, color=GREY, ha="right")
    for line in range(lines):
        for quartet in range(BANKS):
            cell(axes, 2.65 + 1.5 * quartet, 3.0 + line, 1.5, 1.0)
    for (row, p), m in loaded.items():
        line, quartet = divmod(where[row, p], BANKS)
        cell(axes, 2.65 + 1.5 * quartet, 3.0 + line, 1.5, 1.0, _MATRICES[m])
        text(axes, 3.4 + 1.5 * quartet, 3.5 + line, str(row), 9)
    counts = _phases(axes, where, loaded, lines)
    text(axes, 28.0, 0.6, "one ldmatrix, matrix after matrix", 12, weight="bold")
    text(axes, 28.0, 1.5, "one line: one wavefront, all 32 banks", 10, color=GREY)
    return Drawing(
        figure,
        f"A tile of 16 rows with {units} pieces of 16 bytes each, in lines of 32 banks, with the pieces that one"
        " ldmatrix takes. Beside it the four matrices of 8 rows in turn, with the rows that meet in the same four"
        f" banks below each other: {', '.join(f'matrix {m} takes {_wavefronts(n)}' for m, n in enumerate(counts))}.",
    )


def _wavefronts(count: int) -> str:
    return f"{count} wavefront{'s' * (count > 1)}"


def _phases(axes: Any, where: Mapping[tuple[int, int], int], loaded: Mapping[tuple[int, int], int], lines: int) -> list:
    """Draw the four matrices' wavefronts; return how many each takes."""
    counts = []
    high = min(0.85, (lines - 3.4) / 16)
    for m in range(4):
        left, top = 17.5 + m % 2 * 11.6, 3.0 + m // 2 * (8 * high + 2.0)
        taken: Counter[int] = Counter()
        for (row, p), owner in loaded.items():
            if owner == m:
                quartet = where[row, p] % BANKS
                cell(axes, left + 1.3 * quartet, top + taken[quartet] * high, 1.3, high, _MATRICES[m])
                text(axes, left + 1.3 * quartet + 0.65, top + (taken[quartet] + 0.5) * high, str(row), 9)
                taken[quartet] += 1
        counts.append(max(taken.values()))
        for line in range(counts[-1]):
            for quartet in range(BANKS):
                cell(axes, left + 1.3 * quartet, top + line * high, 1.3, high, PAPER, alpha=0.0)
        text(axes, left + 5.2, top - 0.5, f"matrix {m}: {_wavefronts(counts[-1])}", 10)
    return counts


def ring(stages: Sequence[int] = (2, 4), copy: float = 2.5, slices: int = 8) -> Drawing:
    """Rings of buffers on a timeline, one panel per number of stages: the copy and the arithmetic of each slice.

    copy: the time of a copy, in the arithmetic of one slice.
    """
    positive(slices=slices, **{f"stages_{i}": n for i, n in enumerate(stages)})
    schedules = [pipeline.schedule(n, copy, slices) for n in stages]
    end = max(work[-1] + 1 for _, work in schedules)
    figure, axes = canvas(40, 1.6 + sum(1.3 * n + 2.3 for n in stages))
    scale, left, y = 34.0 / end, 5.0, 0.6
    said = []
    for n, (copies, work) in zip(stages, schedules, strict=True):
        text(axes, left, y + 0.3, f"STAGES = {n}", 12, ha="left", weight="bold")
        said.append(f"with {n} buffers all is done after {work[-1] + 1:g} times the arithmetic of a slice")
        for stage in range(n):
            text(axes, 4.6, y + 1.9 + 1.3 * stage, f"buffer {stage}", 10, ha="right")
        for s in range(slices):
            top = y + 1.3 + 1.3 * (s % n)
            cell(axes, left + copies[s] * scale, top + 0.25, copy * scale, 0.7, BLUE)
            cell(axes, left + (copies[s] + copy) * scale, top + 0.55, (work[s] - copies[s] - copy) * scale, 0.1, GREY)
            cell(axes, left + work[s] * scale, top, scale, 1.15, ORANGE)
            text(axes, left + (work[s] + 0.5) * scale, top + 0.6, str(s), 10)
        y += 1.3 * n + 2.3
    legend = "blue: a copy. grey: arrived, waits. orange: arithmetic of the slice with this number. time →"
    text(axes, left, y + 0.2, legend, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"Timelines of {slices} slices in rings of buffers; a copy takes {copy:g} times as long as the arithmetic of a"
        f" slice: {'; '.join(said)}.",
    )
