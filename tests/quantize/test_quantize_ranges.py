"""The range of a tensor's codes, from its histogram."""

import numpy as np
import pytest

from common import topology as t
from common.quantize.ranges import METHODS, STEPS, Histogram, grid_over


def histogram_of(values):
    found = Histogram.over(float(values.min()), float(values.max()))
    found.add(values)
    return found


@pytest.fixture
def bell(rng):
    """A bell curve of 1 million numbers, and one number far out."""
    return np.append(rng.standard_normal(1_000_000), 40.0).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
def test_a_range_contains_zero_and_lies_within_what_was_seen(method, rng):
    for shift in (-9, 0, 9):
        values = (rng.standard_normal(10_000) + shift).astype(np.float32)
        low, high = METHODS[method](histogram_of(values))
        assert min(values.min(), 0) <= low <= 0 <= high <= max(values.max(), 0) and low < high


@pytest.mark.parametrize("method", METHODS)
def test_tensors_of_one_number(method):
    for value in (0.0, 3.0, -2.0):
        low, high = METHODS[method](histogram_of(np.full(10, value, np.float32)))
        assert (low, high) == (min(value, 0.0), max(value, 0.0))
        grid = grid_over(low, high)
        assert grid.values(grid.codes(np.array([value], np.float32)))[0] == pytest.approx(value)


def test_minmax_keeps_the_outlier_and_the_others_saturate_it(bell):
    found = {name: method(histogram_of(bell)) for name, method in METHODS.items()}
    assert found["minmax"] == (bell.min(), 40.0)
    assert 3.5 < found["percentile"][1] < 4.5  # 0.01 % of a normal distribution lies above 3.72
    assert found["entropy"][1] < 6 and found["mse"][1] < 20, found


def test_mse_has_the_least_error_of_the_methods(bell):
    def error(low, high):
        grid = grid_over(low, high)
        return float(((bell - grid.values(grid.codes(bell))) ** 2).mean())

    errors = {name: error(*method(histogram_of(bell))) for name, method in METHODS.items()}
    assert errors["mse"] <= 1.05 * min(errors.values()) and errors["minmax"] > 2 * errors["mse"], errors


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("ends", [(0.0, 6.0), (-1.0, 1.0), (-3.0, 0.0), (-0.1, 7.3)])
def test_a_grid_over_a_range_has_a_code_for_zero(dtype, ends):
    grid = grid_over(*ends, dtype)
    assert isinstance(grid, t.Grid) and grid.dtype == dtype
    assert grid.has(np.zeros(1, np.float32))
    low, high = grid.values(np.array([grid.low, grid.high], dtype))
    step = (ends[1] - ends[0]) / STEPS
    assert abs(low - ends[0]) <= 0.51 * step and abs(high - ends[1]) <= 0.51 * step
