"""common/kernels/int8.py against exact fractions, and include/requantize.h against it, bit for bit."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from common import cuda
from common.kernels import int8
from common.kernels.ladder import INCLUDE

EXTREMES = [0, 1, -1, 127, -128, 2**24 - 1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 2**31 - 65]


def nearest_float(exact):
    """The float32 nearest to a fraction, ties to even: of the candidates around its float64."""
    middle = np.float32(float(exact))
    around = [np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))]
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) % 2))


def nearest_integer(exact):
    return round(exact)  # Python's round of a Fraction: ties to even


def clamped(value, low, high):
    return max(low, min(high, value))


def sums_and_scales(rng):
    """int32 sums and float32 multipliers: random ones, extremes, and products that end in exactly one half."""
    acc = np.concatenate([rng.integers(-(2**31), 2**31, 200), rng.integers(-5000, 5000, 300), EXTREMES])
    multiplier = np.exp(rng.uniform(np.log(1e-9), np.log(2), acc.size)).astype(np.float32)
    ties, halves = np.arange(-257, 258), np.float32([0.5, 0.25, 0.125])
    acc = np.concatenate([acc, *(ties * round(0.5 / half) for half in halves)]).astype(np.int32)
    return acc, np.concatenate([multiplier, *(np.full(ties.size, half) for half in halves)]).astype(np.float32)


@pytest.mark.parametrize(("zero_point", "low", "high"), [(0, -128, 127), (-128, -128, 127), (127, -5, 127), (3, 3, 90)])
def test_requantize_rounds_the_product_once_and_ties_to_even(rng, zero_point, low, high):
    acc, multiplier = sums_and_scales(rng)
    product = [
        nearest_float(Fraction(float(np.float32(a))) * Fraction(float(m))) for a, m in zip(acc, multiplier, strict=True)
    ]
    want = [clamped(nearest_integer(Fraction(float(p))) + zero_point, low, high) for p in product]
    got = int8.requantize(acc, multiplier, zero_point, low, high, axis=0)
    np.testing.assert_array_equal(got, np.array(want, np.int8))


def test_ties_to_even_differ_from_ties_away():
    acc = np.array([1, 3, 5, -1, -3, -5], np.int32)
    np.testing.assert_array_equal(int8.requantize(acc, 0.5), [0, 2, 2, 0, -2, -2])


def test_fma_rounds_once(rng):
    """Random numbers, and a sum whose float64 lies exactly between two floats although the sum itself does not."""
    a, b, c = (np.exp(rng.uniform(-30, 30, 3000)) * rng.choice([-1, 1], 3000) for _ in range(3))
    a = np.append(a, (1 + 2**-23) * 2.0**-24).astype(np.float32)
    b, c = np.append(b, 1 - 2**-23).astype(np.float32), np.append(c, 1 + 2**-23).astype(np.float32)
    want = [
        nearest_float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert twice[-1] != want[-1]
    np.testing.assert_array_equal(int8.fma(a, b, c), np.array(want, np.float32))


PROBE = """#include "requantize.h"
extern "C" __global__ void probe(const int* acc, const float* multiplier, const int* residual, signed char* y,
                                 signed char* sum, unsigned* packed, int n, int zero_point, int low, int high) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = (signed char)requantize(acc[i], multiplier[i], zero_point, low, high);
    sum[i] = (signed char)add_scaled(y[i], residual[i], 0.5f, multiplier[i], 0.25f, 0, low, high);
    packed[i] = pack(y[i], residual[i], byte_of(0x7f80ff01u, i % 4), sum[i]);
}"""


@pytest.mark.parametrize(("zero_point", "low", "high"), [(0, -128, 127), (-128, -128, 127), (127, -5, 127), (3, 3, 90)])
def test_the_header_is_the_model(rng, zero_point, low, high):
    acc, multiplier = sums_and_scales(rng)
    residual = rng.integers(-128, 128, acc.size).astype(np.int32)
    y, total = (cuda.full(acc.size, 99, np.int8) for _ in range(2))
    packed = cuda.zeros(acc.size, np.uint32)
    kernel = cuda.RawKernel(PROBE, "probe", options=("-std=c++17", f"-I{INCLUDE}"))
    arrays = [*map(cuda.asarray, (acc, multiplier, residual)), y, total, packed]
    kernel((acc.size // 256 + 1,), (256,), (*arrays, *map(np.int32, (acc.size, zero_point, low, high))))
    want = int8.requantize(acc, multiplier, zero_point, low, high, axis=0)
    np.testing.assert_array_equal(cuda.asnumpy(y), want)
    inner = int8.fma(residual, multiplier, np.float32(0.25))
    want_sum = np.clip(np.rint(int8.fma(want, np.float32(0.5), inner)), low, high).astype(np.int8)
    np.testing.assert_array_equal(cuda.asnumpy(total), want_sum)
    bytes_of = cuda.asnumpy(packed).view(np.int8).reshape(-1, 4)
    fourth = np.array([1, -1, -128, 127], np.int8)[np.arange(acc.size) % 4]
    np.testing.assert_array_equal(bytes_of, np.stack([want, residual.astype(np.int8), fourth, want_sum], axis=1))


def test_add_is_the_two_fma(rng):
    a, b = rng.integers(-128, 128, (2, 5, 3, 4, 7)).astype(np.int8)
    scales = int8.residual_scales((0.02, 3), (0.05, -7), (0.04, 11))
    exact = 11 + ((a.astype(float) - 3) * 0.02 + (b.astype(float) + 7) * 0.05) / 0.04
    got = int8.add(a, b, scales).astype(float)
    assert np.abs(got - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-4


def test_folding_the_zero_point_is_subtracting_it(rng):
    x = rng.integers(-128, 128, (2, 6, 5, 7)).astype(np.int8)
    weight = rng.integers(-127, 128, (9, 6, 3, 3)).astype(np.int8)
    bias = rng.integers(-9999, 9999, 9).astype(np.int32)
    folded = int8.fold_zero_point(weight, bias, -37)
    got = int8.accumulate(x, weight, folded, stride=2, padding=1, input_zero_point=-37)
    centred = torch.from_numpy(x.astype(np.float64) + 37)
    weights, biases = (torch.from_numpy(array.astype(np.float64)) for array in (weight, bias))
    want = torch.conv2d(centred, weights, biases, 2, 1)
    np.testing.assert_array_equal(got, want.numpy().astype(np.int64))


def test_bounds_are_the_stored_values():
    assert int8.bounds("relu6", 6 / 255, -128) == (-128, 127)
    assert int8.bounds("relu6", 0.1, -100) == (-100, -40)
    assert int8.bounds("relu", 0.1, 5) == (5, 127)
    assert int8.bounds(None, 0.1, 5) == (-128, 127)


def test_sums_that_could_overflow_are_refused():
    weight = np.full((1, int8.DEPTH, 1, 1), -128, np.int8)
    x = np.full((1, int8.DEPTH, 1, 1), -128, np.int8)
    bias = np.array([int8.BIAS], np.int32)
    assert int8.accumulate(x, weight, bias)[0, 0, 0, 0] == 2**31 - 1
    assert int8.accumulate(-1 - x, weight, -bias)[0, 0, 0, 0] > -(2**31)
    with pytest.raises(OverflowError, match="2147483648 does not fit"):
        int8.accumulate(x, weight, bias + 1)
    with pytest.raises(ValueError, match="zero_point"):
        int8.fold_zero_point(weight, bias, 1)
    with pytest.raises(ValueError, match="at most 65536"):
        int8.fold_zero_point(np.zeros((1, int8.DEPTH + 1), np.int8), None, 0)
