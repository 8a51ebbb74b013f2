"""The fused block in int8 equals its three convolutions, one after the other, bit for bit."""

import pytest
from int8_checks import block_of, drawn, modelled, nhwc, poisoned, same, there_of
from tiers import long, only_all

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
    *only_all([(Int8Block(14, 14, 64, 384, 64), None, 2), (Int8Block(14, 14, 96, 576, 160, 2), None, 1)]),
]


@pytest.mark.parametrize(("block", "tile", "batch"), CASES)
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
