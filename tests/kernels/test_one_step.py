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


@pytest.mark.parametrize("products", [9, 27, 160])
def test_a_multiplier_moves_to_one_that_has_a_fma(rng, products):
    weight, bias, multiplier = drawn(rng, products, 5)
    multiplier[:3] = 0.5, 1e-6, np.nan  # of which no neighbour has one
    near = one_step.nearest(weight, bias, multiplier, 5)
    before, after = (one_step.one_step(weight, bias, m, 5)[1] for m in (multiplier, near))
    assert near.dtype == np.float32 and after[3:].all() and not after[:3].any()
    np.testing.assert_array_equal(near[before], multiplier[before])
    np.testing.assert_array_equal(near[:3], multiplier[:3])
    moved = abs(near[3:].view(np.int32) - multiplier[3:].view(np.int32))
    assert moved.max() <= one_step.MOVED and (moved[~before[3:]] > 0).all()
    assert products < 100 or moved.any()


def test_the_nearest_multiplier_is_taken(monkeypatch):
    """Of two that are equally near the larger one."""
    weight, given = np.ones((1, 9), np.int8), np.float32([0.01])
    above, below = (np.nextafter(given, np.float32(end)) for end in (1, 0))
    for able, want in (((above, below), above), ((below,), below), ((np.nextafter(above, np.float32(1)),), None)):
        monkeypatch.setattr(one_step, "_channel", lambda m, *_, able=able: m in able or None)
        found = one_step.nearest(weight, None, given, 0)
        assert found == (able[0] if want is None else want)
    monkeypatch.setattr(one_step, "_channel", lambda *_: None)
    assert one_step.nearest(weight, None, given, 0) == given


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
