"""fp32 products from products of halves: the NumPy twin, and the header's functions beside it."""

import numpy as np
import pytest

from common import cuda
from common.kernels import pair_of_halves, tf32x3
from common.kernels.ladder import INCLUDE

RNG = np.random.default_rng(4)

needs_mma = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma of halves by 16 needs a card of sm_80")


def numbers(low, high, count=20_000):
    """Floats of both signs with magnitudes spread evenly over the powers of two from 2^low to 2^high."""
    return (RNG.choice([-1, 1], count) * np.exp2(RNG.uniform(low, high, count))).astype(np.float32)


def test_high_and_low_are_the_number_within_the_stated_range():
    x = numbers(-2, 15.99)
    high, low = (part.astype(np.float64) for part in pair_of_halves.split(x))
    error = np.abs(high + low - x)
    assert (error <= np.abs(x) * 2.0**-23).all() and error.max() > 0


def test_small_numbers_lose_at_most_a_step_of_the_smallest_half():
    x = numbers(-40, -2)
    high, low = (part.astype(np.float64) for part in pair_of_halves.split(x))
    error = np.abs(high + low - x)
    assert error.max() <= 2.0**-25
    assert (error > np.abs(x) * 2.0**-23).any()  # so that a scale is of use:
    scaled = [part.astype(np.float64) for part in pair_of_halves.split(x, 2.0**17)]
    kept = np.abs(x) >= 2.0**-19
    assert (np.abs(sum(scaled) / 2.0**17 - x) <= np.abs(x) * 2.0**-23)[kept].all()


@pytest.mark.parametrize("x", [65519.0, 65520.0, -1e6, np.inf, np.nan])
def test_numbers_beyond_the_range_never_pass_for_right_ones(x):
    product = pair_of_halves.matmul(np.array([[x]], np.float32), np.array([[2.0]], np.float32))[0, 0]
    assert product == 2 * 65519 if x == 65519 else np.isnan(product)


@pytest.mark.parametrize("bound", [0.0, 2.0**-100, 1e-3, 1.0, 6.0, 6.000001, 255.9, 65504.0, 1e9])
def test_a_scale_is_the_largest_power_of_two_that_fits(bound):
    scale = pair_of_halves.scale_of(bound)
    assert np.log2(scale) % 1 == 0 and bound * scale <= 2**15
    assert bound * scale > 2**14 or scale in (1.0, 2.0**60)


@pytest.mark.parametrize("bound", [-1.0, np.inf, np.nan, 2.0**80])
def test_a_bound_must_be_a_magnitude(bound):
    with pytest.raises(ValueError, match="bound must be"):
        pair_of_halves.scale_of(bound)


@pytest.mark.parametrize(("count", "exponents"), [(1, (-11, -9.9)), (2, (-12, -10.9)), (3, (-23, -20.9))])
def test_errors_of_one_product(count, exponents):
    x, y = (RNG.uniform(0.5, 60_000, 100_000).astype(np.float32) for _ in range(2))
    exact = x.astype(np.float64) * y
    worst = np.log2(np.abs(pair_of_halves.products(x, y, count) / exact - 1).max())
    assert exponents[0] < worst < exponents[1]


def test_sums_err_less_than_those_of_three_tf32_products():
    """With truncation: the shorter a sum, the fewer truncations."""
    x, y = np.random.default_rng(5).standard_normal((2, 40, 960)).astype(np.float32)
    exact = x.astype(np.float64) @ y.T
    scale = pair_of_halves.scale_of(8)
    errors = [
        np.linalg.norm(got - exact) / np.linalg.norm(exact)
        for got in (
            *(pair_of_halves.matmul(x, y, scale, scale, slice=terms) for terms in (16, 32)), tf32x3.matmul(x, y)
        )
    ]  # fmt: skip
    assert errors[0] < errors[1] < errors[2] < 4e-7


# A lane splits fragments of floats, A (16×16) and B (16×8) row-major, and multiplies them
PROBE = """#include "pair_of_halves.h"
extern "C" __global__ void probe(const float* A, const float* B, float a_scale, float b_scale,
                                 float* D, unsigned* split) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float x[8], w[4], part[4] = {}, sum[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    for (int i = 0; i < 8; ++i) x[i] = A[(g + i / 2 % 2 * 8) * 16 + 2 * t + i % 2 + i / 4 * 8];
    for (int i = 0; i < 4; ++i) w[i] = B[(2 * t + i % 2 + i / 2 * 8) * 8 + g];
    unsigned a[4], a_low[4], b[2], b_low[2];
    split_halves(a, a_low, x, a_scale);
    split_halves(b, b_low, w, b_scale);
    mma_halves(part, a, a_low, b, b_low);
    add_scaled(sum, part, 1.0f / (a_scale * b_scale));
    for (int i = 0; i < 4; ++i) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
    for (int i = 0; i < 4; ++i) split[threadIdx.x * 8 + i] = a[i], split[threadIdx.x * 8 + 4 + i] = a_low[i];
}"""


@needs_mma
@pytest.mark.parametrize("bounds", [(6.0, 0.3), (6e-5, 1e4)])
def test_the_header_does_what_the_twin_does(bounds):
    a = (RNG.uniform(-1, 1, (16, 16)) * bounds[0]).astype(np.float32)
    b = (RNG.uniform(-1, 1, (16, 8)) * bounds[1]).astype(np.float32)
    scales = [pair_of_halves.scale_of(bound) for bound in bounds]
    d, split = cuda.full((16, 8), np.nan), cuda.zeros((32, 8), np.uint32)
    kernel = cuda.RawKernel(PROBE, "probe", options=("-std=c++17", f"-I{INCLUDE}"))
    kernel((1,), (32,), (cuda.asarray(a), cuda.asarray(b), *map(np.float32, scales), d, split))

    words = cuda.asnumpy(split).view(np.float16).reshape(8, 4, 2, 2, 2, 2)  # g, t, part, columns + 8, rows + 8, two
    parts = words.transpose(2, 4, 0, 3, 1, 5).reshape(2, 16, 16)
    np.testing.assert_array_equal(parts, pair_of_halves.split(a, scales[0]))
    exact = a.astype(np.float64) @ b
    assert np.linalg.norm(cuda.asnumpy(d) - 1 - exact) < 1e-6 * max(np.linalg.norm(exact), 1)
    twin = 1 + pair_of_halves.matmul(a, b.T, *scales)
    np.testing.assert_allclose(cuda.asnumpy(d), twin, rtol=1e-6, atol=1e-6 * np.abs(exact).max())
