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
    """Additions, and multiplications by other numbers than ±1, of a product with a vector, row by row."""
    additions = sum(max(int(np.count_nonzero(row)) - 1, 0) for row in matrix)
    return additions + sum(1 for value in np.ravel(matrix) if abs(value) not in (0, 1))


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
    """(G, B_T) of the same algorithm in which B_T has integers: what its rows are multiplied by, G's are divided by."""
    factors = [math.lcm(*(Fraction(value).denominator for value in row)) for row in b_t]
    scale = np.array(factors, dtype=object)[:, None]
    return g / scale, np.array([[int(value) for value in row] for row in b_t * scale], dtype=object)
