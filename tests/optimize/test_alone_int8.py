"""The block in int8 by single warps (alone_int8.cu): the bits of its three convolutions."""

import re
from dataclasses import replace

import numpy as np
import pytest
from int8_checks import drawn, modelled, nhwc, same
from test_sliding_int8 import compared, image_of, parts_of
from tiers import long

from common import cuda
from common.kernels.traced import trace_call
from common.optimize import blocks_int8
from common.optimize.blocks_int8 import Int8Block, Int8Tile, Slid, inverted_residual_int8

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


def tile(strip, warps, blocks=1):
    return Int8Tile(strip, 14, 1, 16, strip, warps, blocks=blocks, alone=True)


CASES = [
    # two segments, a strip beyond the image, 24 channels of x, a last eight of outputs
    (Int8Block(9, 28, 24, 48, 24), tile(4, 3), 1),
    # 16 channels: half a product; two images, one of three warps has no item at last
    (Int8Block(6, 14, 16, 32, 16), tile(7, 3), 2),
    # more channels than a product takes, and a rest of 8; one row of outputs
    (Int8Block(3, 14, 40, 32, 40), tile(1, 2), 1),
    (Int8Block(4, 14, 64, 16, 64), tile(2, 2), 1),
    # 8 channels and outputs: less than a unit
    (Int8Block(5, 14, 8, 16, 8), tile(2, 4), 3),
    # stride 2: sizes that strips divide, and that they do not; 8 outputs left
    (Int8Block(8, 28, 16, 32, 24, 2), tile(4, 2), 1),
    (Int8Block(9, 56, 24, 32, 32, 2), tile(2, 3), 1),
    (Int8Block(6, 28, 32, 48, 16, 2), tile(1, 2), 2),
]


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "tile", "batch"), CASES, ids=str)
def test_it_is_its_three_convolutions(rng, block, tile, batch, zero):
    compared(rng, block, tile, batch, zero)


@pytest.mark.parametrize(("block", "tile", "batch"), [CASES[0], CASES[5]], ids=str)
def test_channels_that_take_two_roundings_have_the_same_bits(rng, monkeypatch, block, tile, batch):
    """Every third one, of the hidden channels and of the outputs: planes of one kind, and of the other."""
    right = blocks_int8.one_step

    def some(*given):
        made, exact = right(*given)
        return made, exact & (np.arange(len(exact)) % 3 > 0)

    monkeypatch.setattr(blocks_int8, "one_step", some)
    x = image_of(rng, block, batch)
    parts, there = parts_of(rng, block, 11)
    assert 0 < Slid(*there, block.stride).slow < block.hidden
    out = inverted_residual_int8(nhwc(x), *there, stride=block.stride, input_zero_point=11, tile=tile)
    same(out, modelled(x, parts, block.stride, 11))


def test_what_it_does_not_take(rng):
    block, tile, _ = CASES[0]
    x = nhwc(drawn(rng, 1, block.channels, block.height, block.width))
    _, there = parts_of(rng, block, 3)
    given = {"input_zero_point": 3, "tile": tile}
    with pytest.raises(ValueError, match="takes small sums of project that fill int8"):
        inverted_residual_int8(x, *there[:2], replace(there[2], small=False), **given)
    with pytest.raises(ValueError, match="takes small sums of project that fill int8"):
        inverted_residual_int8(x, *there[:2], replace(there[2], bounds=(-100, 90)), **given)
    with pytest.raises(ValueError, match=r"single warps take strip × 14 outputs of 1 image"):
        inverted_residual_int8(x, *there, input_zero_point=3, tile=replace(tile, images=2))


@pytest.mark.parametrize(
    ("block", "tile", "why"),
    [
        (Int8Block(9, 28, 24, 24, 24, expand=False), tile(4, 3), "need a 1×1 expand"),
        (Int8Block(12, 28, 3, 32, 16, 1, True, 23, 56), tile(4, 2), "need a 1×1 expand"),
        (Int8Block(9, 28, 24, 40, 24), tile(4, 3), "a multiple of 16 hidden channels"),
        (Int8Block(9, 20, 24, 48, 24), tile(4, 3), "14·n columns"),
        (Int8Block(9, 27, 24, 48, 24, 2), tile(4, 3), "14·n columns"),
        (Int8Block(9, 28, 24, 48, 24), tile(12, 3), "1 to 11 rows"),
        (Int8Block(9, 28, 24, 48, 72), tile(7, 3), "outputs must fit where x was"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_tiles_that_do_not_suit_a_block(block, tile, why):
    assert re.search(why, block.alone_problem(tile) or "")


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("block", "tile", "batch"), CASES, ids=str)
def test_it_has_no_findings(rng, block, tile, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, (_, there) = nhwc(image_of(rng, block, batch)), parts_of(rng, block, 5)
    given = {"stride": block.stride, "input_zero_point": 5, "tile": tile}
    (report,) = trace_call(lambda: inverted_residual_int8(x, *there, **given), None)
    assert not report.findings
