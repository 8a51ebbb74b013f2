"""Shared memory: in which bank each word of a tile lies, and the words of one column."""

from .canvas import BLUE, GREY, ORANGE, PAPER, Drawing, canvas, cell, positive, text

BANKS = 32
_ROWS, _COLUMNS = 6, 12  # of the tile, drawn


def tile_banks(columns: int = 32, column: int = 0) -> Drawing:
    """The banks of a tile of floats with rows of `columns`; the words of one column are coloured by bank.

    columns: floats per row, 1 or more. column: 0 to 11, one that is drawn.
    """
    positive(columns=columns)
    if not 0 <= column < min(_COLUMNS, columns):
        raise ValueError(f"column must be from 0 to {min(_COLUMNS, columns) - 1}, got {column!r}")
    shown = min(_COLUMNS, columns)
    figure, axes = canvas(22, _ROWS + 3.2, 0.75)
    text(axes, 3.2, 0.5, "tile[r][c]: bank", 11, ha="right", weight="bold")
    for c in range(shown):
        text(axes, 4.1 + c, 0.5, f"c {c}" if c < 2 else str(c), 10, color=GREY)
    for r in range(_ROWS):
        text(axes, 3.2, 1.6 + r, f"row {r}", 10, ha="right", color=GREY)
        for c in range(shown):
            bank = (r * columns + c) % BANKS
            first = (column % BANKS) == bank
            cell(axes, 3.6 + c, 1.1 + r, 1, 1, PAPER if c != column else ORANGE if first else BLUE)
            text(axes, 4.1 + c, 1.6 + r, str(bank), 11, weight="bold" if c == column else "normal")
    banks = len({(r * columns + column) % BANKS for r in range(BANKS)})
    fullest = BANKS // banks
    text(axes, 16.6, 1.6, f"rows of {columns}", 13, ha="left", weight="bold")
    text(axes, 16.6, 2.9, f"32 rows of column {column}:", 11, ha="left")
    words = f"{banks} bank{'s' if banks > 1 else ''} with {fullest} word{'s' if fullest > 1 else ''}"
    text(axes, 16.6, 3.8, words + " each" * (banks > 1), 11, ha="left")
    text(axes, 16.6, 4.7, f"{fullest} wavefront{'s' if fullest > 1 else ''}", 11, ha="left", weight="bold")
    text(axes, 3.6, _ROWS + 1.8, "⋮", 13)
    text(axes, 4.4, _ROWS + 1.8, f"up to row 31 and column {columns - 1}", 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"The bank of each word of a tile with rows of {columns} floats; 6 rows are drawn. The words of column {column}"
        f" in 32 rows lie in {banks} bank{'s' if banks > 1 else ''}: a request for them takes {fullest}"
        f" wavefront{'s' if fullest > 1 else ''}.",
    )
