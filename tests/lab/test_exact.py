"""Exact matrices for the derivation of Winograd's algorithm."""

from fractions import Fraction

import numpy as np
import pytest

from common.lab import exact


def test_an_inverse_is_exact():
    matrix = np.array([[0, 2, 1], [1, Fraction(1, 3), 0], [4, 0, 5]], dtype=object)
    assert (exact.inverse(matrix) @ matrix == np.eye(3, dtype=int)).all()
    assert all(isinstance(value, Fraction) for value in exact.inverse(matrix).flat)


def test_a_matrix_without_inverse_is_refused():
    with pytest.raises(ValueError, match="two of the points the same"):
        exact.inverse(np.array([[1, 2], [1, 2]], dtype=object))
    with pytest.raises(ValueError, match="square"):
        exact.inverse(np.array([[1, 2]], dtype=object))


def test_operations_of_the_transforms():
    assert exact.operations(np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], dtype=object)) == 4
    assert exact.operations(np.array([[1, 1, 1, 0], [0, 1, -1, -1]], dtype=object)) == 4
    assert exact.operations(np.array([[4, 0, -5, 0, 1, 0]], dtype=object)) == 2


def test_operations_of_the_larger_transforms_are_those_of_the_courses_kernel():
    b_t = [
        [4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]  # fmt: skip
    a_t = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    assert exact.operations(np.array(b_t, dtype=object)) == 12  # input_1d of fused_f4x4, with multiply-adds
    assert exact.operations(np.array(a_t, dtype=object)) == 10  # output_1d


def test_equal_rows_are_computed_once_and_a_row_without_a_one_needs_a_multiplication():
    assert exact.operations(np.array([[1, 1, 0], [-1, -1, 0]], dtype=object)) == 1
    assert exact.operations(np.array([[2, 3]], dtype=object)) == 2
    assert exact.operations(np.array([[0, 0], [0, 0]], dtype=object)) == 0


def test_fractions_move_from_b_to_g_without_changing_the_product():
    g = np.array([[Fraction(1)], [Fraction(2)]], dtype=object)
    b_t = np.array([[Fraction(1, 2), Fraction(1, 3)], [Fraction(-1), Fraction(0)]], dtype=object)
    moved, integers = exact.without_fractions(g, b_t)
    assert integers.tolist() == [[3, 2], [-1, 0]] and moved.tolist() == [[Fraction(1, 6)], [Fraction(2)]]
    assert (moved * integers == g * b_t).all()
    assert exact.without_fractions(g, b_t * 30)[1].tolist() == [[3, 2], [-1, 0]], "whatever the factor was"


def test_matrices_stand_side_by_side(capsys):
    exact.show(A=np.array([[1, -1]], dtype=object), B=np.array([[Fraction(1, 2)], [3]], dtype=object))
    assert capsys.readouterr().out == "A         B\n 1 -1     1/2\n            3\n"
