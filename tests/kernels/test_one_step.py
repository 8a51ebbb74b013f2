"""Requantization by one fma: the codes of int8.requantize for every sum that there can be."""

import numpy as np
import pytest

from common.kernels import int8, one_step


def drawn(rng, products, zero_point):
    """(weight, bias, multiplier) of 24 channels whose outputs fill int8."""
    weight = rng.integers(-128, 128, (24, products)).astype(np.int8)
    bias = int8.fold_zero_point(weight, rng.integers(-3000, 3000, 24).astype(np.int32), -5)
    spread = 128 * 73 * np.sqrt(products) / 1.7
    return weight, bias, (127 / spread * rng.uniform(0.3, 1.2, 24)).astype(np.float32)


@pytest.mark.parametrize("zero_point", [-128, -19, 0, 37])
@pytest.mark.parametrize("products", [3, 9, 24])
def test_every_sum_has_its_code(rng, products, zero_point):
    weight, bias, multiplier = drawn(rng, products, zero_point)
    if products == 9:
        multiplier[:4] = 0.25 ** np.arange(2, 6)  # powers of two: products half way between two integers
    made, exact = one_step.one_step(weight, bias, multiplier, zero_point)
    assert exact.mean() > 0.7 and exact[4:].any()
    flat = weight.astype(np.int64)
    for i in np.flatnonzero(exact)[::3]:
        low, high = (one(flat[i] * -128, flat[i] * 127).sum() for one in (np.minimum, np.maximum))
        sums = np.arange(low, high + 1, dtype=np.int32)[None]
        want = int8.requantize(sums + bias[i], multiplier[i], zero_point).astype(np.int32) + 128
        np.testing.assert_array_equal(one_step.codes(sums, made[:, i : i + 1]), want)


def test_unsigned_inputs_move_the_bias(rng):
    weight, bias, multiplier = drawn(rng, 9, 5)
    (signed, exact), (unsigned, same) = (
        one_step.one_step(weight, bias, multiplier, 5, unsigned=given) for given in (False, True)
    )
    np.testing.assert_array_equal(exact, same)
    np.testing.assert_array_equal(unsigned[0], signed[0] - 128 * weight.astype(np.int32).sum(axis=1))
    np.testing.assert_array_equal(unsigned[1:], signed[1:])


def test_sums_that_are_too_long_or_multipliers_that_are_too_large_have_none(rng):
    weight = np.full((1, 512), 127, np.int8)
    assert not one_step.one_step(weight, None, np.float32([1e-3]), 0)[1].any()
    assert not one_step.one_step(weight[:, :9], None, np.float32([0.5]), 0)[1].any()
    assert not one_step.one_step(weight[:, :9], None, np.float32([np.nan]), 0)[1].any()


@pytest.mark.parametrize("modulus", [7, 64, 1000])
def test_the_first_multiple_in_an_interval(rng, modulus):
    for step in range(modulus if modulus < 100 else 40):
        low = int(rng.integers(modulus))
        high = int(rng.integers(low, modulus))
        found = [x for x in range(modulus) if low <= step * x % modulus <= high]
        assert one_step.first_in(step, modulus, low, high) == (found[0] if found else None)
