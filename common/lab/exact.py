"""Matrices of fractions: exact inverses, operations of a product with a vector, fractions moved from B to G."""

import math
from fractions import Fraction

import numpy as np


def inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a square matrix in exact fractions. ValueError for one that has none."""
    size = len(matrix)
    if np.shape(matrix) != (size, size):
        raise ValueError(f"matrix must be square, got shape {np.shape(matrix)}")
    rows = [[*map(Fraction, row), *(Fraction(int(i == k)) for i in range(size))] for k, row in enumerate(matrix)]
    for k in range(size):
        pivot = next((r for r in range(k, size) if rows[r][k]), None)
        if pivot is None:
            raise ValueError("matrix has no inverse: are two of the points the same?")
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for r in range(size):
            if r != k and rows[r][k]:
                rows[r] = [value - rows[r][k] * other for value, other in zip(rows[r], rows[k], strict=True)]
    return np.array([row[size:] for row in rows], dtype=object)


def operations(matrix: np.ndarray) -> int:
    """Additions, multiplications and multiply-adds, each as one, of a product with a vector.

    Two rows, or two columns, that differ only in signs share their sums: p + q and p - q are computed from p and q.
    """
    rows, columns = np.shape(matrix)
    # the same steps backwards compute the transpose's product: they differ by as many additions as the sizes differ
    return min(_by_rows(np.asarray(matrix)), _by_rows(np.asarray(matrix).T) + columns - rows)


def _by_rows(matrix: np.ndarray) -> int:
    """Operations row by row; pairs of rows that differ only in signs share their sums."""
    count, rows = 0, list(matrix)
    while rows:
        row = rows.pop(0)
        twin = next((k for k, other in enumerate(rows) if (abs(other) == abs(row)).all()), None)
        if twin is None or not np.any(row):
            count += _of_row(row)
            continue
        other = rows.pop(twin)
        halves = np.where(row == other, row, 0), np.where(row != other, row, 0)
        if all(map(np.any, halves)):
            # the two last multiply-adds apply the factor of a half
            count += sum(_of_row(_reduced(half)) for half in halves) + 2
        else:
            count += _of_row(row)  # the other row is the same or its negative
    return count


def _of_row(row: np.ndarray) -> int:
    """Operations of one row: a sum starts with a term of factor ±1 if there is one, else with a multiplication."""
    terms = [value for value in row if value]
    return len(terms) - any(abs(value) == 1 for value in terms) if terms else 0


def _reduced(row: np.ndarray) -> np.ndarray:
    """The row divided by its smallest coefficient other than 0."""
    return np.asarray(row / min((value for value in row if value), key=abs), dtype=object)


def show(**matrices: np.ndarray) -> None:
    """Print matrices of fractions by name, side by side."""
    columns = []
    for name, matrix in matrices.items():
        cells = [[str(value) for value in row] for row in matrix]
        wide = max(len(cell) for row in cells for cell in row)
        lines = [" ".join(cell.rjust(wide) for cell in row) for row in cells]
        columns.append([name, *lines])
    height = max(map(len, columns))
    for k in range(height):
        parts = [(column[k] if k < len(column) else "").ljust(max(map(len, column))) for column in columns]
        print("     ".join(parts).rstrip())


def without_fractions(g: np.ndarray, b_t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(G, B_T) of the same algorithm with integers in B_T: what its rows are multiplied by, G's are divided by.

    The integers of a row have no common divisor.
    """
    factors = [
        Fraction(
            math.lcm(*(Fraction(v).denominator for v in row)), math.gcd(*(Fraction(v).numerator for v in row)) or 1
        )
        for row in b_t
    ]
    scale = np.array(factors, dtype=object)[:, None]
    return g / scale, np.array([[int(value) for value in row] for row in b_t * scale], dtype=object)
