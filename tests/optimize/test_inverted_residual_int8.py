"""The fused block in int8 equals its three convolutions, one after the other, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from int8_checks import block_of, drawn, modelled, nhwc, poisoned, same, there_of
from tiers import long, only_all, seldom

from common import cuda
from common.kernels import int8
from common.kernels.traced import trace_call
from common.optimize.blocks_int8 import Int8Block, Int8Tile, inverted_residual_int8

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


CASES = [
    (
        Int8Block(7, 7, 24, 96, 24),
        Int8Tile(7, 7, 2, 64, strip=7, warps=4, warps_n=1),
        3,
    ),  # whole images, a tail of them
    (Int8Block(9, 12, 16, 48, 40, 2), Int8Tile(2, 3, 1, 32, strip=2, warps=4, warps_n=2), 1),  # halos; a tail of hidden
    (Int8Block(13, 10, 8, 40, 8), Int8Tile(4, 5, 1, 32, strip=2, warps=2), 2),
    (Int8Block(11, 6, 32, 32, 16, expand=False), Int8Tile(4, 6, 1, 32, strip=4, warps=4), 2),
    (Int8Block(5, 7, 40, 40, 24, 2, expand=False), None, 1),
    (Int8Block(6, 9, 16, 200, 24), Int8Tile(3, 8, 1, 96, strip=3, warps=6), 1),  # slices of 96, a tail of 8
    (Int8Block(7, 7, 40, 136, 16, 2), Int8Tile(4, 4, 4, 128, strip=4, warps=8, warps_n=1), 6),  # 4 images, a tail of 2
    *only_all([(Int8Block(14, 14, 64, 384, 64), None, 2)]),
]
OF_LARGE_SUMS = only_all([(Int8Block(14, 14, 96, 576, 160, 2), None, 1)])  # of project, with the weights drawn here


@pytest.mark.parametrize(("block", "tile", "batch"), [*CASES, *OF_LARGE_SUMS])
def test_it_is_its_three_convolutions(rng, block, tile, batch):
    x, zero = drawn(rng, batch, block.channels, block.height, block.width), -19
    parts = block_of(rng, block, zero)
    want = modelled(x, parts, block.stride, zero)
    there = [there_of(part) for part in parts]
    given = {"stride": block.stride, "input_zero_point": zero, "tile": tile}
    out = poisoned(*want.shape)
    inverted_residual_int8(nhwc(x), *there, **given, out=out)
    same(out, want)
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))
    want = modelled(x, parts, block.stride, zero, residual=residual, residual_scales=scales)
    same(inverted_residual_int8(nhwc(x), *there, **given, residual=nhwc(residual), residual_scales=scales), want)


@seldom(6)
@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "tile", "batch"), CASES)
def test_small_sums_have_the_same_bits(rng, block, tile, batch, zero):
    """Without conversion instructions, and clamped where they are packed; of zero point −128 nothing is added."""
    x = drawn(rng, batch, block.channels, block.height, block.width)
    parts = [None if part is None else replace(part, bounds=(-128, 127)) for part in block_of(rng, block, zero)]
    if zero == -128:  # the hidden tensors' too: the biases are those of another zero point, and still biases
        parts = [part and replace(part, zero_point=-128) for part in parts]
    for part in parts:
        assert part is None or int8.small_sums(part.weight, part.bias, part.multiplier)
    there = [part and replace(there_of(part), small=True) for part in parts]
    given = {"stride": block.stride, "input_zero_point": zero, "tile": tile}
    want = modelled(x, parts, block.stride, zero)
    same(inverted_residual_int8(nhwc(x), *there, **given), want)
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))
    more = {"residual_scales": scales, "residual_first": zero == 37}
    parts[2] = replace(parts[2], bounds=(-100, 90))
    want = modelled(x, parts, block.stride, zero, residual=residual, **more)
    last = replace(there[2], bounds=(-100, 90))
    same(inverted_residual_int8(nhwc(x), *there[:2], last, **given, residual=nhwc(residual), **more), want)


def test_what_small_sums_are(rng):
    """The longest sum of the largest codes counts, with the bias and with the multiplier."""
    weight, one = np.full((2, 256, 1, 1), 127, np.int8), np.ones(2, np.float32)
    assert int8.SMALL > 128 * 127 * 256 and int8.small_sums(weight, None, one / 4)
    assert not int8.small_sums(weight, np.array([0, int8.SMALL - 128 * 127 * 256], np.int32), one / 4)
    assert int8.small_sums(weight, np.array([0, int8.SMALL - 128 * 127 * 256 - 1], np.int32), one / 4)
    assert not int8.small_sums(weight, None, np.array([1, 1.01], np.float32))


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("block", "tile", "batch"), CASES)
def test_it_has_no_findings(rng, block, tile, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, parts = nhwc(drawn(rng, batch, block.channels, block.height, block.width)), block_of(rng, block, 5)
    there = [there_of(part) for part in parts]
    (report,) = trace_call(
        lambda: inverted_residual_int8(x, *there, stride=block.stride, input_zero_point=5, tile=tile), None
    )
    assert not report.findings
