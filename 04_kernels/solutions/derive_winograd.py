from fractions import Fraction

import numpy as np

from common.lab.exact import inverse


def evaluation(points, count):
    """The matrix V with V @ coefficients = values, for a polynomial with `count` coefficients.

    points: numbers, and perhaps "∞", where the value is the last coefficient. The array of
    Fractions has one row per point.
    """
    # BEGIN SOLUTION
    # write: the array (dtype=object), one row per point
    last = [Fraction(0)] * (count - 1) + [Fraction(1)]
    rows = [last if p == "∞" else [Fraction(p) ** k for k in range(count)] for p in points]
    return np.array(rows, dtype=object)
    # END SOLUTION


def derive_winograd(points, outputs):
    """(A_T, G, B_T) of F(outputs, 3), from outputs + 2 different points."""
    # BEGIN SOLUTION
    # write: the three matrices, from `evaluation` and `inverse`
    to_values = evaluation(points, len(points))
    return evaluation(points, outputs).T, evaluation(points, 3), inverse(to_values).T
    # END SOLUTION
