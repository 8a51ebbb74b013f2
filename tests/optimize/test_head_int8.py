"""The head in int8, a 1×1 convolution with its mean: the bits of the two kernels one after the other."""

from dataclasses import replace

import numpy as np
import pytest
from int8_checks import constants, drawn, in_one_step, nhwc, poisoned, same, there_of
from tiers import long

from common import cuda
from common.kernels import int8
from common.kernels.traced import trace_call
from common.optimize.blocks_int8 import Int8Convolution
from common.optimize.head_int8 import Int8HeadTile, few_rows_int8, head_tile, pointwise_pool_int8

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")

# (images, channels, height, width, outputs), tile
CASES = [
    ((3, 40, 7, 7, 48), Int8HeadTile(2, 1, 1, 2)),  # images walked over, outputs and channels of a part of a tile
    ((2, 24, 7, 7, 72), Int8HeadTile(1, 2, 4, 2)),  # pixels shared by four warps, of which one has a tile
    ((5, 64, 3, 3, 96), Int8HeadTile(2, 3, 1, 3)),
    ((2, 16, 2, 2, 8), Int8HeadTile(1, 1, 1, 1)),
    ((2, 32, 9, 13, 40), None),
]


def drawn_case(rng, shape, zero=-7):
    """(x, convolution, want) of random numbers; of the mean: multiplier 2.5, zero point 9."""
    n, c, h, w, o = shape
    x, weight = drawn(rng, n, c, h, w), drawn(rng, o, c, 1, 1)
    zero_point, bias, multiplier = constants(rng, weight)
    part = Int8Convolution(weight, int8.fold_zero_point(weight, bias, zero), multiplier, zero_point, (-60, 101))
    return x, part


def wanted(x, part):
    codes = int8.conv2d(
        x, part.weight, part.bias, part.multiplier, zero_point=part.zero_point, bounds=part.bounds, input_zero_point=0
    )
    return int8.global_avg_pool(codes, 2.5, input_zero_point=part.zero_point, zero_point=9)


@pytest.mark.parametrize(("shape", "tile"), CASES)
def test_it_is_the_convolution_and_the_mean(rng, shape, tile):
    x, part = drawn_case(rng, shape)
    out = poisoned(shape[0], shape[4], 1, 1)
    pointwise_pool_int8(nhwc(x), there_of(part), 2.5, pool_zero_point=9, tile=tile, out=out)
    same(out, wanted(x, part))
    whole = replace(part, bounds=(-128, 127))
    assert int8.small_sums(part.weight, part.bias, part.multiplier)
    small = replace(there_of(whole), small=True)
    same(pointwise_pool_int8(nhwc(x), small, 2.5, pool_zero_point=9, tile=tile), wanted(x, whole))


@pytest.mark.parametrize(("shape", "tile"), CASES[:3])
def test_codes_by_one_fma(rng, shape, tile):
    x, part = drawn_case(rng, shape)
    weight, bias = part.weight.copy(), part.bias.copy()
    multiplier, made = in_one_step(weight, bias, part.multiplier, part.zero_point)
    part = Int8Convolution(weight, bias, multiplier, part.zero_point)
    given = {"pool_zero_point": 9, "tile": tile, "one_step": cuda.asarray(made)}
    same(pointwise_pool_int8(nhwc(x), there_of(part), 2.5, **given), wanted(x, part))
    clamped = replace(part, bounds=(-60, 101))  # to fewer codes than a byte has: not by one fma
    same(pointwise_pool_int8(nhwc(x), there_of(clamped), 2.5, **given), wanted(x, clamped))


def test_the_mean_may_read_codes_of_another_zero_point(rng):
    x, part = drawn_case(rng, CASES[2][0])
    codes = int8.conv2d(x, part.weight, part.bias, part.multiplier, zero_point=part.zero_point, bounds=part.bounds)
    want = int8.global_avg_pool(codes, 2.5, input_zero_point=33, zero_point=9)
    same(pointwise_pool_int8(nhwc(x), there_of(part), 2.5, pool_zero_point=9, code_zero_point=33), want)


def test_images_are_divided_among_multiprocessors(monkeypatch):
    """32 images: one thread block of 3, not two of 2 each; 256 images: 20 of a multiprocessor either way."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    assert [head_tile(49, 320, 1280, batch).beside for batch in (32, 256)] == [13, 26]


def test_what_it_does_not_take(rng):
    assert head_tile(49, 2048, 1280, 1) is None and head_tile(49, 12, 1280, 1) is None  # too deep; not whole pieces
    assert head_tile(49, 320, 1280, 1).beside == 1 and head_tile(49, 320, 1280, 256).channels == 128
    x, part = drawn_case(rng, (1, 12, 2, 2, 8))
    with pytest.raises(ValueError, match="head_int8: no tile for 4 pixels of 12 > 8 channels"):
        pointwise_pool_int8(nhwc(x), there_of(part), 2.5)


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("shape", "tile"), CASES)
def test_it_has_no_findings(rng, shape, tile):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, part = drawn_case(rng, shape)
    there, given = there_of(part), nhwc(x)
    (report,) = trace_call(lambda: pointwise_pool_int8(given, there, 2.5, pool_zero_point=9, tile=tile), None)
    assert not report.findings


@pytest.mark.parametrize(("n", "k", "o"), [(1, 1280, 40), (3, 112, 10), (41, 80, 24), (8, 704, 16), (256, 64, 24)])
def test_few_rows_are_a_linear_layer(rng, n, k, o):
    x, weight = drawn(rng, n, k), drawn(rng, o, k)
    _, bias, multiplier = constants(rng, weight)
    want = int8.scaled(int8.linear_accumulate(x, weight, bias), multiplier)
    there = [cuda.asarray(one) for one in (x, weight, bias, multiplier)]
    np.testing.assert_array_equal(cuda.asnumpy(few_rows_int8(*there)), want)
    want = int8.scaled(int8.linear_accumulate(x, weight), multiplier)
    out = cuda.asarray(np.full((n, o), np.nan, np.float32))
    few_rows_int8(*there[:2], None, there[3], out=out)
    np.testing.assert_array_equal(cuda.asnumpy(out), want)


def test_what_few_rows_are_not(rng):
    _, bias, multiplier = constants(rng, drawn(rng, 8, 24))
    there = [cuda.asarray(one) for one in (drawn(rng, 2, 24), drawn(rng, 8, 24), bias, multiplier)]
    with pytest.raises(ValueError, match="rows of x and weight must be multiples of 16 bytes, got 24 columns"):
        few_rows_int8(*there)
    many = [cuda.asarray(one) for one in (drawn(rng, 257, 32), drawn(rng, 8, 32))]
    with pytest.raises(ValueError, match=r"x must have at most 256 rows, got 257; kernels\.linear_int8 takes more"):
        few_rows_int8(*many, *there[2:])


def test_out_may_not_be_an_input(rng):
    x, part = drawn_case(rng, (2, 16, 1, 1, 16))
    there = nhwc(x)
    with pytest.raises(ValueError, match="out and x share memory"):
        pointwise_pool_int8(there, there_of(part), 2.5, out=there)
    memory = cuda.asarray(np.zeros((2, 64), np.int8))
    _, bias, multiplier = (cuda.asarray(one) if i else one for i, one in enumerate(constants(rng, drawn(rng, 16, 64))))
    weight = cuda.asarray(drawn(rng, 16, 64))
    with pytest.raises(ValueError, match="out and x share memory"):
        few_rows_int8(memory, weight, bias, multiplier, out=memory.reshape(-1).view(np.float32).reshape(2, 16))


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
def test_few_rows_have_no_findings(rng):
    x, weight = drawn(rng, 11, 80), drawn(rng, 24, 80)
    _, bias, multiplier = constants(rng, weight)
    there = [cuda.asarray(one) for one in (x, weight, bias, multiplier)]
    (report,) = trace_call(lambda: few_rows_int8(*there), None)
    assert not report.findings
