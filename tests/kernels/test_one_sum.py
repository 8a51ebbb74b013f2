"""A residual's sum in two fma (one_sum.py): the codes of int8.add for all pairs of codes, and in a kernel."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from int8_checks import constants, drawn, nhwc

from common import cuda, kernels
from common.kernels import int8
from common.kernels.int8_arguments import Epilogue
from common.kernels.one_sum import SMALLEST, Sum, one_sum


def drawn_scales(rng):
    """Scales as a network has them: of a product, a residual and their sum, with zero points."""
    a, b = rng.uniform(0.02, 0.1, 2)
    zeros = rng.integers(-128, 128, 3).tolist()
    return int8.residual_scales((a, zeros[0]), (b, zeros[1]), (np.hypot(a, b) * rng.uniform(0.8, 1.1), zeros[2]))


def every_pair():
    return np.meshgrid(np.arange(-128, 128).astype(np.int8), np.arange(-128, 128).astype(np.int8), indexing="ij")


def as_floats(made: Sum, product, residual):
    """The kernel's instructions on float32 numbers, as of add_four: fma of the smallest floats, exact in float64."""
    p, q = (product, residual) if made.of_residual else (residual, product)
    p, q = p.astype(np.int64) + 128, q.astype(np.int64) + 128
    q = 255 - q if made.b < 0 else q
    bits = ((q << 16) + made.fraction).astype(np.int32).view(np.float32).astype(np.float64)
    a, b, rest, _ = made.numbers
    t = ((p * SMALLEST) * np.float64(a) + bits).astype(np.float32).astype(np.float64)
    codes = (t * np.float64(b) + np.float64(rest)).astype(np.float32).view(np.int32)
    return np.clip(np.where(codes < 0, 0, codes), 0, 255) - 128


@pytest.mark.parametrize(("offset", "residual_first"), [(0, False), (0, True), (128, False), (128, True)])
def test_all_pairs_have_the_codes_of_the_sum(rng, offset, residual_first):
    product, residual = every_pair()
    found = 0
    for _ in range(25):
        scales = drawn_scales(rng)
        made = one_sum(scales, offset, residual_first)
        if made is not None:
            found += 1
            terms = (residual, product) if residual_first else (product, residual)
            want = int8.add(*terms, scales, -128, 127, offset)
            np.testing.assert_array_equal(as_floats(made, product, residual), want)
    assert found > 20


def test_a_moved_parameter_has_other_codes():
    """So the comparison above can fail: 64 of the last places of a factor, or of the fraction, are too many."""
    scales = int8.residual_scales((0.051, 3), (0.0623, -7), (0.0813, 11))
    product, residual = every_pair()
    made = one_sum(scales)
    assert made is not None
    want = int8.add(product, residual, scales, -128, 127, 0)
    for changed in (
        {"a": np.float32(made.a * (1 + 2.0**-12))}, {"b": np.float32(made.b * (1 + 2.0**-12))},
        {"rest": made.rest + 1}, {"fraction": made.fraction + 400},
    ):  # fmt: skip
        assert (as_floats(replace(made, **changed), product, residual) != want).any()


def test_all_four_ways_are_taken(rng):
    found = [one_sum(drawn_scales(rng)) for _ in range(120)]
    ways = {(made.of_residual, made.b < 0) for made in found if made}
    assert ways == set(itertools.product((False, True), (False, True)))
    assert None in found  # and some fit in none


@pytest.mark.parametrize(
    "scales",
    [(0.0, 1.0, 0.0), (1.0, -0.5, 0.0), (np.inf, 1.0, 0.0), (1.0, np.nan, 0.0), (1.0, 1.0, np.nan), (4096.0, 1.0, 0.0)],
)
def test_scales_that_no_network_has_are_left_to_the_general_sum(scales):
    assert one_sum(scales) is None


def test_it_is_for_sums_of_all_codes_alone(rng):
    """SMALL 2 and 3: also the sum is clamped to −128 … 127. Else a kernel takes the numbers of int8.add."""
    scales = int8.residual_scales((0.051, 3), (0.0623, -7), (0.0813, 11))
    shape = (1, 16, 2, 2)
    given = np.ones(16, np.float32), 5, (-128, 127), shape
    residual = nhwc(drawn(rng, *shape))
    end = Epilogue(16, 32, None, cuda.asarray(given[0]), *given[1:], residual, scales)
    assert end.ends_as(1) == (end.switches, end.numbers) == end.ends_as(0)
    made = one_sum(end.residual_scales)
    for small in (2, 3):
        switches, numbers = end.ends_as(small)
        assert switches == {"ONE_SUM": 1 if made.of_residual else 2}
        assert numbers == (5, -128, 127, *made.numbers)
    alone = replace(end, residual=None, residual_scales=None)
    assert alone.ends_as(2) == (alone.switches, alone.numbers)


@pytest.mark.skipif(cuda.compute_capability() < 80, reason="the rung needs a card of sm_80")
def test_a_kernel_has_the_bits_in_each_of_the_ways(rng):
    """pointwise_int8 with all ways, and with none, beside the model."""
    x, weight = drawn(rng, 1, 32, 6, 6), drawn(rng, 16, 32, 1, 1)
    zero, bias, multiplier = constants(rng, weight)
    given = nhwc(weight), cuda.asarray(bias), cuda.asarray(multiplier)
    residual = drawn(rng, 1, 16, 6, 6)
    left = {(True, True), (True, False), (False, True), (False, False), None}
    while left:
        scales, first = drawn_scales(rng), bool(rng.integers(2))
        made = one_sum(tuple(float(np.float32(scale)) for scale in scales), 0, first)
        way = made and (made.of_residual, bool(made.b < 0))
        if way not in left:
            continue
        left.discard(way)
        more = {"zero_point": zero, "residual_scales": scales, "residual_first": first}
        out = kernels.pointwise_int8(nhwc(x), *given, residual=nhwc(residual), variant="persistent", **more)
        want = int8.conv2d(x, weight, bias, multiplier, residual=residual, **more)
        np.testing.assert_array_equal(cuda.asnumpy(out), want)
