"""expect(), require() and expect_error(): what they let through and what they say."""

import numpy as np
import pytest

from common.check import ToDo, Wrong, expect, expect_error, require


def message(got, want, **tolerance):
    """What expect() says of a wrong answer called `f(x)`; it has to be wrong."""
    with pytest.raises(Wrong) as error:
        expect(got, want, what="f(x)", hint="a hint", **tolerance)
    assert error.value.hint == "a hint"
    return error.value.what


def passes(got, want, **tolerance):
    expect(got, want, what="f(x)", hint="a hint", **tolerance)


def test_equal_values_pass():
    passes(3, 3)
    passes(np.int64(3), 3)
    passes(2.5, 2.5)
    passes(2, 2.0)  # a whole number where a float is expected
    passes(np.float32(0.5), 0.5)
    passes("same", "same")
    passes(None, None)
    passes(True, True)
    passes((1, [2, 3]), [1, (2, 3)])
    passes({"a": 1, "b": (2.0,)}, {"b": [2.0], "a": 1})
    passes(float("nan"), float("nan"))
    passes(float("inf"), float("inf"))


def test_wrong_values_are_named():
    assert message(4, 3) == "f(x) is 4, expected 3"
    assert message(0.5, 0.25) == "f(x) is 0.5, expected 0.25"
    assert message("vaild", "valid") == "f(x) is 'vaild', expected 'valid'"
    assert message((1, 2, 4), (1, 2, 3)) == "f(x)[2] is 4, expected 3"
    assert message([1, 2], [1, 2, 3]) == "f(x) has 2 items, expected 3: [1, 2, 3]"
    assert message({"pad": 1}, {"stride": 2}) == "f(x) has no 'stride'"
    assert message({"stride": 3}, {"stride": 2}) == "f(x)['stride'] is 3, expected 2"
    assert message({"stride": 2, "x": 1}, {"stride": 2}) == "f(x) has 'x', which does not belong there"


def test_the_kind_counts():
    assert message(3.0, 3) == "f(x) is 3.0, a float; a whole number is expected: 3"
    assert message(1, True) == "f(x) is 1, a whole number; a bool is expected: True"
    assert message(True, 1) == "f(x) is True, a bool; a whole number is expected: 1"
    assert message("3", 3) == "f(x) is '3', a string; a whole number is expected: 3"
    assert message(3, (3,)) == "f(x) is 3, a whole number; a tuple is expected: (3,)"
    assert message(3, None) == "f(x) is 3, a whole number; nothing is expected: None"
    assert message(len, 3) == "f(x) is <built-in function len>, of type builtin_function_or_method; " + (
        "a whole number is expected: 3"
    )


def test_addresses_and_long_values_are_left_out():
    assert "0x" not in message(lambda: 0, 3)
    assert len(message("y" * 1000, "n")) < 100


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


def test_equal_arrays_pass():
    x = np.random.default_rng().random((3, 5))
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
    assert message(want.T, want) == "f(x) has shape (3, 2), expected (2, 3)"
    assert message(want.astype(int), want) == "f(x) has dtype int64, expected float64"
    assert message(want.tolist(), want).endswith("a list; an array of shape (2, 3) is expected")
    assert message(want[:, :, None], want) == "f(x) has shape (2, 3, 1), expected (2, 3)"


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
    want = np.random.default_rng().random((2, 3)).astype(np.float32)
    passes(torch.tensor(want, requires_grad=True), want)
    assert "shape" in message(torch.zeros(3, 2), want)


def test_require():
    require(True, what="f is slow", hint="a hint")
    with pytest.raises(Wrong, match="f is slow"):
        require(False, what="f is slow", hint="a hint")


def test_expect_error():
    expect_error(ValueError, lambda: int("x"), what="int('x')", hint="a hint")
    with pytest.raises(Wrong, match=r"int\('1'\) gives 1, it should raise ValueError"):
        expect_error(ValueError, lambda: int("1"), what="int('1')", hint="a hint")
