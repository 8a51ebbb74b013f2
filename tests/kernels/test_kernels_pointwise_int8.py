"""pointwise_int8 and linear_int8: every rung equals the NumPy model, bit for bit."""

import numpy as np
import pytest
from int8_checks import constants, drawn, nhwc, poisoned, same
from kernel_checks import every_rung
from tiers import in_turn, only_all

from common import cuda, kernels
from common.kernels import int8

RUNGS = kernels.variants("pointwise_int8")
# N, C, H, W, O: odd ones first; rows of 1, 4, 8 and 16 bytes; one more than a tile
SHAPES = [
    (1, 1, 1, 1, 1), (2, 7, 3, 5, 3), (1, 17, 7, 5, 33), (3, 24, 5, 3, 40), (2, 96, 7, 7, 24), (1, 36, 9, 4, 20),
    (1, 33, 1, 131, 65), (1, 144, 5, 13, 32), (1, 160, 3, 3, 129),
    *only_all([(1, 1280, 1, 1, 1000), (5, 64, 11, 12, 96)]),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "variant"), in_turn(SHAPES, RUNGS, 2))
def test_every_rung_is_the_model(rng, shape, variant):
    n, c, h, w, o = shape
    x, weight = drawn(rng, n, c, h, w), drawn(rng, o, c, 1, 1)
    zero_point, bias, multiplier = constants(rng, weight)
    bias = int8.fold_zero_point(weight, bias, 17)
    residual, scales = drawn(rng, n, o, h, w), int8.residual_scales((0.03, zero_point), (0.05, -9), (0.06, 4))
    for more in ({}, {"residual": residual, "residual_scales": scales, "residual_offset": 128}):
        for limits in ((-128, 127), (zero_point, 100)):
            out = poisoned(n, o, h, w)
            given = {name: nhwc(value) if name == "residual" else value for name, value in more.items()}
            kernels.pointwise_int8(
                nhwc(x), cuda.asarray(weight), cuda.asarray(bias), cuda.asarray(multiplier), zero_point=zero_point,
                bounds=limits, **given, out=out, variant=variant,
            )  # fmt: skip
            same(out, int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point, bounds=limits, **more))


@every_rung("pointwise_int8")
def test_ties_saturation_and_the_ends_of_int32(variant):
    """Sums at ±2³¹ − 1, which a bias of 2³⁰ reaches at 65,536 channels; products that end in exactly one half."""
    c = int8.DEPTH
    x, weight = np.full((1, c, 1, 2), -128, np.int8), np.full((3, c, 1, 1), -128, np.int8)
    x[..., 1], weight[1] = 127, 127
    bias = np.array([int8.BIAS, -int8.BIAS, 0], np.int32)
    multiplier = np.float32([2.0**-25, 2.0**-24, 1.0])
    acc = int8.accumulate(x, weight, bias)
    assert acc.max() == 2**31 - 1 and acc.min() < -(2**31) + 2**24
    got = kernels.pointwise_int8(nhwc(x), *map(cuda.asarray, (weight, bias, multiplier)), variant=variant)
    same(got, int8.requantize(acc, multiplier))
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 16, 16)
    one, half = np.ones((4, 1, 1, 1), np.int8), np.full(4, 0.5, np.float32)
    got = kernels.pointwise_int8(
        nhwc(values), cuda.asarray(one), None, cuda.asarray(half), zero_point=3, variant=variant
    )
    want = np.array([round(v / 2) + 3 for v in range(-128, 128)], np.int8)
    same(got, np.broadcast_to(want.reshape(1, 1, 16, 16), (1, 4, 16, 16)))


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (3, 17, 10), (2, 64, 33), (65, 20, 7), *only_all([(1, 1280, 1000)])]
)
@every_rung("pointwise_int8")
def test_linear_to_int8_and_to_floats(rng, m, k, n, variant):
    x, weight = drawn(rng, m, k), drawn(rng, n, k)
    zero_point, bias, multiplier = constants(rng, weight)
    arrays = [*map(cuda.asarray, (x, weight, bias, multiplier))]
    acc = int8.linear_accumulate(x, weight, bias)
    same(
        kernels.linear_int8(*arrays, zero_point=zero_point, variant=variant),
        int8.requantize(acc, multiplier, zero_point),
    )
    out = cuda.full((m, n), np.nan)
    kernels.linear_int8(*arrays, to_float=True, out=out, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(out), int8.scaled(acc, multiplier))


@every_rung("pointwise_int8")
@pytest.mark.parametrize("first", [False, True])
def test_the_order_of_the_sum_with_a_residual(variant, first):
    """Of all pairs of codes; in 5,196 of them the order decides what is rounded."""
    pairs = np.meshgrid(*[np.arange(-128, 128, dtype=np.int8)] * 2)
    x, residual = (np.ascontiguousarray(one.reshape(1, 8, 64, 128)) for one in pairs)
    weight, one, scales = np.eye(8, dtype=np.int8).reshape(8, 8, 1, 1), np.ones(8, np.float32), (1 / 3, 2 / 3, 0.5)
    want = int8.add(*((residual, x) if first else (x, residual)), scales)
    assert (want != int8.add(*((x, residual) if first else (residual, x)), (2 / 3, 1 / 3, 0.5))).sum() == 5196
    given = {"residual_scales": scales, "residual_first": first}
    np.testing.assert_array_equal(int8.conv2d(x, weight, None, one, residual=residual, **given), want)
    arrays = nhwc(x), cuda.asarray(weight), None, cuda.asarray(one)
    same(kernels.pointwise_int8(*arrays, residual=nhwc(residual), **given, variant=variant), want)


@every_rung("pointwise_int8")
def test_arrays_that_begin_anywhere(rng, variant):
    """Rows of whole vectors at addresses that are not: the same result."""
    x, weight = drawn(rng, 1, 32, 5, 5), drawn(rng, 32, 32, 1, 1)
    zero_point, bias, multiplier = constants(rng, weight)

    def moved(array):
        whole = cuda.empty(array.size + 1, array.dtype)
        whole[1:] = cuda.asarray(np.ascontiguousarray(array).reshape(-1))
        return whole[1:].reshape(array.shape)

    stored = moved(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    got = kernels.pointwise_int8(
        stored, *map(moved, (weight, bias, multiplier)), zero_point=zero_point, variant=variant
    )
    same(got, int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point))
