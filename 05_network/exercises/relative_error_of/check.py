import math

import numpy as np

from common.check import expect, expect_error, require
from common.check.trials import Slips, seeded


def norm(array):
    return math.sqrt(math.fsum(number * number for number in np.ravel(array).tolist()))


SLIPS = {
    "the norm of ref stands below, not that of out: an out that is far too large would look good": lambda out, ref: (
        norm(out - ref) / norm(out)
    ),
    "a norm is the root of the sum of the squares: the root is missing": lambda out, ref: (
        (norm(out - ref) / norm(ref)) ** 2
    ),
    "a relative error: over the norm of ref": lambda out, ref: norm(out - ref),
    "the norm of the difference, not the difference of the norms": lambda out, ref: (
        abs(norm(out) - norm(ref)) / norm(ref)
    ),
    "the root of the sum of the squares, not the largest difference": lambda out, ref: (
        abs(out - ref).max() / abs(ref).max()
    ),
    "the root of the sum of the squares, not the sum of the differences": lambda out, ref: (
        abs(out - ref).sum() / abs(ref).sum()
    ),
    "one number for the array as a whole, no mean over the elements' own errors": lambda out, ref: np.mean(
        abs(out - ref) / abs(ref)
    ),
}


def check(relative_error_of):
    slips = Slips(SLIPS)

    def same(out, ref, want, what, hint):
        with np.errstate(all="ignore"):  # what a wrong answer runs into, its number says
            got = relative_error_of(out, ref)
        exact = np.asarray(out, np.float64), np.asarray(ref, np.float64)
        expect(got, want, what=f"relative_error_of({what})", hint=slips.hint(got, exact, hint), rtol=1e-6)

    a = np.array([3.0, 4.0], np.float32)
    hint = "the root of the sum of the squares, of the difference and of ref"
    same(a[::-1], a, math.sqrt(2) / 5, "[4, 3], [3, 4]", hint)
    hint = "the norm of ref stands below, not that of out: else an out that is far too large would look good"
    same(3 * a, a, 2.0, "[9, 12], [3, 4]", hint)
    same(0 * a, a, 1.0, "[0, 0], [3, 4]", hint)

    hint = "it is one number for the array as a whole: no element has an error of its own, and no row"
    ref = np.array([[100.0], [1e-6]])
    same(ref + np.array([[0.0], [1e-3]]), ref, 1e-5, "[[100], [0.001001]], [[100], [0.000001]]", hint)
    hint = "all elements count, whatever the number of dimensions; the norm of a matrix may be another (ord=2)"
    one = np.array([[1.0, 0.0], [0.0, 1.0]])
    want = 2 / math.sqrt(10)
    same(one, np.array([[1.0, 0.0], [0.0, 3.0]]), want, "[[1, 0], [0, 1]], [[1, 0], [0, 3]]", hint)

    hint = "turn both into float64 first: 300² is more than a float16 can hold, and 1e30² more than a float32"
    half = np.array([300.0, -400.0], np.float16)
    same(half, np.array([300.0, 0.0], np.float16), 4 / 3, "[300, -400], [300, 0] in float16", hint)
    large = np.array([3e30, 4e30], np.float32)
    same(large, np.array([3e30, 0.0], np.float32), 4 / 3, "[3e30, 4e30], [3e30, 0] in float32", hint)
    ref, out = np.float32(1) + np.zeros(7, np.float32), np.ones(7, np.float16)
    ref[3] += np.float32(1e-5)
    error = float(ref[3]) - 1
    hint = "turn both into float64 first: what is subtracted in float16 is rounded to 3 digits"
    same(out, ref, error / math.sqrt(6 + (1 + error) ** 2), "out in float16, ref in float32", hint)

    broken = np.ones((2, 3), np.float32)
    broken[1, 2] = np.nan
    hint = "NaN in out has to come through: a result with a number missing is not nearly right"
    with np.errstate(all="ignore"):
        got = relative_error_of(broken, np.ones((2, 3), np.float32))
    require(isinstance(got, float) and math.isnan(got), what=f"NaN in out gives {got!r}", hint=hint)

    hint = "(5, 1) − (1, 5) is an array of 25 numbers for NumPy, and no error; compare the shapes yourself"
    call = lambda: relative_error_of(np.ones((5, 1)), np.ones((1, 5)))  # noqa: E731
    expect_error(ValueError, call, what="relative_error_of of shapes (5, 1) and (1, 5)", hint=hint)

    shapes = [((3,), (3, 1)), ((4,), (2, 2)), ((1,), (5,)), ((), (1,)), ((2, 3), (3, 2)), ((2, 3), (1, 2, 3))]
    for one, other in shapes:
        call = lambda one=one, other=other: relative_error_of(np.ones(one), np.ones(other))  # noqa: E731
        hint = "NumPy may make one shape of two; the statement asks for an error wherever they are not the same"
        expect_error(ValueError, call, what=f"relative_error_of of shapes {one} and {other}", hint=hint)
    with np.errstate(all="ignore"):
        got = relative_error_of(np.array([1.0, -math.inf]), np.ones(2))
    hint = "an infinite number in out is infinitely far from ref"
    require(isinstance(got, float) and got == math.inf, what=f"−inf in out gives {got!r}, expected inf", hint=hint)
    one = np.array([1.5, -2.0])
    same(one, one.copy(), 0.0, "[1.5, -2], the same", "an out that is ref is off by 0")

    random, seed = seeded()
    for shape in ((), (1,), (7,), (2, 10), (3, 4, 5, 6), (1, 1, 20_000)):
        for kinds in (
            (np.float64, np.float64),
            (np.float32, np.float32),
            (np.float16, np.float32),
            (np.float16, np.float16),
        ):
            scale = float(random.choice([1, 100, 1e-4] if np.float16 in kinds else [1, 1e-40, 1e-18, 1e18, 1e30]))
            ref = (scale * random.standard_normal(shape)).astype(kinds[1])
            off = float(random.choice([0.5, 1e-3]))
            out = (ref.astype(np.float64) * (1 + off * random.standard_normal(shape))).astype(kinds[0])
            want = norm(out.astype(np.float64) - ref.astype(np.float64)) / norm(ref.astype(np.float64))
            what = f"{out.dtype} and {ref.dtype} of shape {shape}, {seed}"
            same(out, ref, want, what, "‖out − ref‖ / ‖ref‖ over all elements, in float64 from the beginning")
