"""expect(), require() and expect_error(): what they let through and what they say."""

import numpy as np
import pytest
from tiers import seed

from common.check import ToDo, Wrong, expect, expect_error, require
from common.check.answers import NEARLY


def message(got, want, **tolerance):
    """What expect() says of a wrong answer called `f(x)`; it has to be wrong."""
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", **tolerance)
    assert error.value.hint in ("a hint", NEARLY)
    return error.value.what


def another_kind(got, want, **more):
    """What expect() says of an answer of another kind, which gets no hint: that is about values."""
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", **more)
    assert error.value.hint == ""
    return error.value.what


def passes(got, want, **tolerance):
    expect(got, want, what="f(x)", hint="a hint", **tolerance)


def test_equal_values_pass():
    passes(3, 3)
    passes(np.int64(3), 3)
    passes(2.5, 2.5)
    passes(2, 2.0)  # a whole number where a float is expected
    passes(np.float64(0.5), 0.5)
    passes("same", "same")
    passes(None, None)
    passes(True, True)
    passes([1, (2, 3)], [1, (2, 3)])
    passes({"a": 1, "b": [2.0]}, {"b": [2.0], "a": 1})
    passes(-0.0, 0.0)
    passes(float("nan"), float("nan"))
    passes(float("inf"), float("inf"))


def test_wrong_values_are_named():
    assert message(4, 3) == "f(x) is 4, expected 3"
    assert message(0.5, 0.25) == "f(x) is 0.5, expected 0.25"
    assert message("vaild", "valid") == "f(x) is 'vaild', expected 'valid'"
    assert message([1, 2, 4], [1, 2, 3]) == "f(x)[2] is 4, expected 3"
    assert message([1, 2], [1, 2, 3]) == "f(x) has 2 items, [1, 2]; expected 3: [1, 2, 3]"
    assert message([("y", "z")], []) == "f(x) has 1 item, [('y', 'z')]; expected 0: []"
    assert message({"pad": 1}, {"stride": 2}) == "f(x) has no 'stride'"
    assert message({"stride": 3}, {"stride": 2}) == "f(x)['stride'] is 3, expected 2"
    assert message({"stride": 2, "x": 1}, {"stride": 2}) == "f(x) has 'x', which does not belong there"


def test_the_kind_counts():
    assert another_kind(3.0, 3) == "f(x) is 3.0, a float; a whole number is expected: 3"
    assert another_kind(1, True) == "f(x) is 1, a whole number; a bool is expected: True"
    assert another_kind(True, 1) == "f(x) is True, a bool; a whole number is expected: 1"
    assert another_kind("3", 3) == "f(x) is '3', a string; a whole number is expected: 3"
    assert another_kind(3, (3,)) == "f(x) is 3, a whole number; a tuple is expected: (3,)"
    assert message(3, None) == "f(x) is 3, a whole number; nothing is expected: None"
    assert another_kind([3], (3,)) == "f(x) is [3], a list; a tuple is expected: (3,)"
    assert another_kind((3,), [3]) == "f(x) is (3,), a tuple; a list is expected: [3]"
    assert another_kind([(1, 2.0)], [(1, 2)]) == "f(x)[0][1] is 2.0, a float; a whole number is expected: 2"
    assert another_kind(np.arange(2), [0, 1]).endswith("an array; a list is expected: [0, 1]")
    assert another_kind(np.float32(0.5), 0.5) == "f(x) is 0.5, a float32 of NumPy; a float is expected: 0.5"
    assert another_kind(len, 3) == "f(x) is <built-in function len>, of type builtin_function_or_method; " + (
        "a whole number is expected: 3"
    )


def test_a_hint_of_its_own_for_another_kind():
    with pytest.raises(Wrong) as error:
        expect(3.0, 3, what="f(x)", hint="a hint", kind_hint="// divides whole numbers")
    assert error.value.hint == "// divides whole numbers"


def test_the_width_of_a_dtype_where_it_counts():
    x = np.ones(3, np.float32)
    passes(x, x, dtype=np.float32)
    assert another_kind(x.astype(np.float64), x, dtype=np.float32) == "f(x) has dtype float64, expected float32"
    assert message(2 * x, x, dtype=np.float32).startswith("f(x)[0] is 2.0"), "the value comes first"


def test_the_sign_of_zero_where_it_counts():
    assert message(-0.0, 0.0, signed_zeros=True) == "f(x) is -0.0, expected 0.0: the sign of zero counts here"
    zeros = np.zeros(3)
    passes(-zeros, zeros)
    assert "f(x)[0] is -0.0, expected 0.0" in message(-zeros, zeros, signed_zeros=True)


@pytest.mark.parametrize(
    ("got", "want", "tolerance"),
    [
        (2 / 3 + 1e-13, 2 / 3, {}),
        (3.14160, 3.14159, {"rtol": 1e-7}),
        (np.float32([1, 2.0001]), np.float32([1, 2]), {}),
        ([1, (2.0000001,)], [1, (2.0,)], {"rtol": 1e-9}),
    ],
)
def test_nearly_is_a_message_of_its_own(got, want, tolerance):
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", **tolerance)
    assert error.value.hint == NEARLY
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", nearly=False, **tolerance)
    assert error.value.hint == "a hint"


@pytest.mark.parametrize(
    ("got", "want", "tolerance"),
    [
        (0.7, 2 / 3, {}),
        (3.15, 3.14159, {"rtol": 1e-3}),
        (1001, 1000, {}),
        (1e-12, 0.0, {}),
        (np.float64([1, 2, np.nan]), np.float64([1, 2.0000001, 3]), {"rtol": 1e-9}),
        (float("nan"), 1.0, {"rtol": 1e-9}),
    ],
)
def test_what_is_not_nearly_right(got, want, tolerance):
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", **tolerance)
    assert error.value.hint == "a hint"


def test_two_numbers_that_differ_do_not_look_the_same():
    assert message(1 + 1e-12, 1.0) == "f(x) is 1.000000000001, expected 1.0"


def test_addresses_and_long_values_are_left_out():
    assert len(message("y" * 10**7, "n")) < 100
    assert "0x" not in another_kind(lambda: 0, 3)


class Mute:
    def __repr__(self):
        raise RuntimeError("no")


def test_values_that_cannot_be_shown():
    assert message(7**100_000, 3) == "f(x) is a whole number of 84,510 digits, expected 3"
    assert message(10**400, 3.0) == "f(x) is a whole number of 401 digits, expected 3.0"
    assert "whose repr() raises ValueError" in another_kind([7**100_000], 3)
    assert "a Mute whose repr() raises RuntimeError" in another_kind(Mute(), 3)


def test_nothing_given_back_is_not_yet_an_answer():
    for nothing in (None, ...):
        with pytest.raises(ToDo, match=r"f\(x\) gives"):
            passes(nothing, 3)


def test_tolerances_are_zero_unless_given():
    assert "expected" in message(1 + 1e-12, 1.0)
    passes(1 + 1e-7, 1.0, rtol=1e-6)
    assert "expected" in message(1 + 1e-5, 1.0, rtol=1e-6)
    passes(1e-9, 0.0, atol=1e-8)
    assert "nan" in message(float("nan"), 0.0, atol=1e9)
    assert "inf" in message(float("inf"), 0.0, rtol=1.0, atol=1e9)
    assert "expected nan" in message(0.0, float("nan"), atol=1e9)


@pytest.mark.parametrize(
    ("want", "tolerance", "allowed"),
    [
        (8.0, {"rtol": 2**-10}, 2**-7),
        (-8.0, {"rtol": 2**-10}, 2**-7),
        (8.0, {"atol": 2**-7}, 2**-7),
        (8.0, {"rtol": 2**-10, "atol": 2**-7}, 2**-6),
        (np.array([8.0, -16.0, 0.0]), {"rtol": 2**-10}, 2**-6),  # of the largest, for each element
    ],
)
def test_a_tolerance_is_as_wide_as_it_says(want, tolerance, allowed):
    """All numbers are powers of two and their sums, so that the bound itself is met exactly."""
    for off in (allowed, -allowed):
        passes(want + off, want, **tolerance)
        assert "expected" in message(want + off * (1 + 2**-20), want, **tolerance)


@pytest.mark.parametrize(("off", "nearly"), [(0.9e-3, True), (1.1e-3, False)])
def test_nearly_right_ends_at_a_thousandth(off, nearly):
    with pytest.raises(Wrong) as error:
        expect(4 * (1 + off), 4.0, what="f(x)", hint="a hint", rtol=1e-4)
    assert (error.value.hint == NEARLY) is nearly


def test_equal_arrays_pass():
    x = np.random.default_rng(seed()).random((3, 5))
    passes(x, x)
    passes(x.astype(np.float32), x, rtol=1e-6)
    passes(np.array([1, np.nan, np.inf]), np.array([1, np.nan, np.inf]))
    passes(np.zeros((0, 3)), np.zeros((0, 3)))
    passes(np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int64))
    passes(np.float64(2.5), np.array(2.5))


def test_wrong_arrays_are_located():
    want = np.arange(6.0).reshape(2, 3)
    got = want.copy()
    got[1, 0] = 7
    assert message(got, want) == "f(x)[1, 0] is 7.0, expected 3.0 (1 of 6 elements differ)"
    assert another_kind(want.T, want) == "f(x) has shape (3, 2), expected (2, 3)"
    assert another_kind(want.astype(int), want) == "f(x) has dtype int64, expected float64"
    assert another_kind(want.tolist(), want).endswith("a list; an array of shape (2, 3) is expected")
    assert another_kind(want[:, :, None], want) == "f(x) has shape (2, 3, 1), expected (2, 3)"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_elements_are_never_within_a_tolerance(bad):
    want = np.ones((4, 4))
    got = want.copy()
    got[2, 3] = bad
    assert "(1 of 16 elements differ)" in message(got, want, rtol=10.0, atol=10.0)
    assert "(1 of 16 elements differ)" in message(want, got, rtol=10.0, atol=10.0)


def test_zeros_do_not_pass_for_small_numbers():
    small = np.full(8, 1e-9)
    assert "(8 of 8 elements differ)" in message(np.zeros(8), small, rtol=1e-3)


def test_tensors_count_as_arrays():
    torch = pytest.importorskip("torch")
    want = np.random.default_rng(seed()).random((2, 3)).astype(np.float32)
    passes(torch.tensor(want, requires_grad=True), want)
    assert "shape" in another_kind(torch.zeros(3, 2), want)


def test_require():
    require(True, what="f is slow", hint="a hint")
    with pytest.raises(Wrong, match="f is slow"):
        require(False, what="f is slow", hint="a hint")


def test_expect_error():
    expect_error(ValueError, lambda: int("x"), what="int('x')", hint="a hint")
    with pytest.raises(Wrong, match=r"int\('1'\) gives 1, it should raise ValueError"):
        expect_error(ValueError, lambda: int("1"), what="int('1')", hint="a hint")


def test_an_error_of_another_kind_is_told_as_one():
    with pytest.raises(Wrong, match=r"f\(\) raises IndexError: no 3; it should raise ValueError"):
        expect_error(ValueError, lambda: (_ for _ in ()).throw(IndexError("no 3")), what="f()", hint="say so")
    with pytest.raises(NotImplementedError, match="write"):
        expect_error(ValueError, lambda: (_ for _ in ()).throw(NotImplementedError("write: f")), what="f()", hint="")
