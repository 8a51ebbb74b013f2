import math

import numpy as np

from common.check import expect, expect_error, require


def check(relative_error_of):
    def same(out, ref, want, what, hint):
        with np.errstate(all="ignore"):  # what a wrong answer runs into, its number says
            got = relative_error_of(out, ref)
        expect(got, want, what=f"relative_error_of({what})", hint=hint, rtol=1e-6)

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

    random = np.random.default_rng()
    for shape in ((7,), (2, 10), (3, 4, 5, 6)):
        ref = random.standard_normal(shape)
        out = ref + 1e-6 * random.standard_normal(shape)
        want = math.sqrt(sum(d * d for d in (out - ref).ravel())) / math.sqrt(sum(r * r for r in ref.ravel()))
        same(out, ref, want, "out, ref", f"arrays of shape {shape}: all elements count, and nothing else")
