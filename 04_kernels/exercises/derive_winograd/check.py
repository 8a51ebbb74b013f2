from fractions import Fraction

import numpy as np

from common.check import Wrong
from common.check.answers import require
from common.check.trials import python_random


def number(draw):
    return Fraction(draw.randint(-9, 9), draw.randint(1, 5))


def check(evaluation, derive_winograd):
    draw = python_random()
    for points, count in (([2], 3), ([0], 2), (["∞"], 3), ([-1, 2], 4), ([0, 1, -1, "∞"], 4)):
        what = f"evaluation({points}, {count})"
        got = np.array(evaluation(points, count), dtype=object)
        if got.shape != (len(points), count):
            raise Wrong(f"{what} has shape {got.shape}", "one row per point, one column per coefficient")
        want = [[int(k == count - 1) if p == "∞" else p**k for k in range(count)] for p in points]
        for p, row, right in zip(points, got, want, strict=True):
            hint = (
                "at ∞ the value is the last coefficient: what row picks it out?"
                if p == "∞"
                else f"the coefficients are u0, u1, …: the value at {p} is u0 + {p}·u1 + {p}²·u2 + …"
            )
            same(list(row), right, what=f"{what}, the row of {p}", hint=hint)

    sets = [[0, 1, -1, "∞"], [0, 1, 2, "∞"], [0, 1, -1, 2, "∞"], [0, 1, -1, 2, -2, "∞"], [0, 1, -1, 2]]
    for points in sets:
        outputs = len(points) - 2
        what = f"derive_winograd({points}, {outputs})"
        a_t, g, b_t = (np.array(matrix, dtype=object) for matrix in derive_winograd(points, outputs))
        shapes = {"A_T": (a_t, (outputs, len(points))), "G": (g, (len(points), 3)), "B_T": (b_t, (len(points),) * 2)}
        for name, (matrix, shape) in shapes.items():
            if matrix.shape != shape:
                raise Wrong(
                    f"{what}: {name} has shape {matrix.shape}, not {shape}",
                    "y = Vₘᵀ [(V₃ g) ⊙ (V⁻ᵀ d)]: g has 3 numbers, d as many as there are points, y has `outputs`",
                )
        if any(isinstance(value, float) for matrix in (a_t, g, b_t) for value in matrix.flat):
            raise Wrong(f"{what} has floats", "common.lab.exact.inverse keeps fractions; numpy.linalg.inv does not")
        for _ in range(3):
            d = np.array([number(draw) for _ in points], dtype=object)
            filters = np.array([number(draw) for _ in range(3)], dtype=object)
            got = list(a_t @ ((g @ filters) * (b_t @ d)))
            want = [sum(d[i + k] * filters[k] for k in range(3)) for i in range(outputs)]
            mistake = list(a_t @ ((g @ filters) * (b_t.T @ d)))
            hint = (
                "B_T is the inverse of V, transposed"
                if mistake == want
                else "y = Vₘᵀ [(V₃ g) ⊙ (V⁻ᵀ d)], where V evaluates as many coefficients as there are points"
            )
            said = f"{what}: A_T @ ((G @ g) * (B_T @ d)) with d = {words(d)}, g = {words(filters)}"
            same(got, want, what=said, hint=hint)


def same(got, want, *, what, hint):
    require(got == want, what=f"{what} is {words(got)}, expected {words(want)}", hint=hint)


def words(values):
    return f"({', '.join(map(str, values))})"
