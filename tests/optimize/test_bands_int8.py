"""The block in int8 whose hidden pixels stay in registers (bands_int8.cu): the bits of its three convolutions."""

from dataclasses import replace

import pytest
from int8_checks import drawn, modelled, nhwc, same, third_in_two_roundings
from test_sliding_int8 import compared, image_of, parts_of
from tiers import long

from common import cuda
from common.kernels.traced import trace_call
from common.optimize import tiles_int8
from common.optimize.blocks_int8 import Int8Block, Int8Tile, Slid, inverted_residual_int8

pytestmark = pytest.mark.skipif(
    cuda.backend() == "gpu" and cuda.compute_capability() != 90, reason="setmaxnreg is in sm_90a alone"
)


def tile(block, strip, sets, warps):
    columns = block.out_size[1]
    return Int8Tile(strip, columns, sets * 112 // columns, block.hidden, strip, warps, bands=True)


CASES = [
    # eight bands to a row; strips in the middle of an image, and at its ends; an odd number of 16 hidden channels
    (Int8Block(8, 56, 24, 48, 24), (4, 1, 5), 1),
    # four bands; strips of several images in one product, of which the last one has none
    (Int8Block(4, 28, 32, 32, 32), (2, 1, 4), 1),
    (Int8Block(4, 28, 32, 32, 32), (4, 1, 3), 3),
    # two sets of warps, whose strips are of different images; 16 channels of x: half a product
    (Int8Block(6, 28, 16, 32, 16), (6, 2, 6), 3),
    # a whole image of 112 columns, two bands; more channels of x than a product takes; one row of more is odd
    (Int8Block(2, 112, 40, 16, 40), (2, 1, 2), 2),
    (Int8Block(4, 14, 8, 16, 8), (2, 1, 2), 2),
    # stride 2: strips of one row, of several, two sets
    (Int8Block(8, 112, 16, 32, 24, 2), (2, 1, 3), 1),
    (Int8Block(8, 56, 24, 48, 32, 2), (4, 1, 5), 2),
    (Int8Block(4, 56, 16, 32, 64, 2), (1, 2, 8), 5),
    # more steps than rows of x have room for at once
    (Int8Block(24, 28, 16, 16, 16), (24, 1, 2), 4),
    (Int8Block(24, 56, 8, 16, 8, 2), (12, 1, 3), 4),
]


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "sizes", "batch"), CASES, ids=str)
def test_it_is_its_three_convolutions(rng, block, sizes, batch, zero):
    compared(rng, block, tile(block, *sizes), batch, zero)


def test_registers_change_hands_with_twelve_warps_that_expand(rng):
    """Only then has the kernel setmaxnreg, which the simulator has no use for, and a card would wait for ever."""
    block = Int8Block(4, 28, 32, 192, 32)
    compared(rng, block, tile(block, 4, 1, 16), 4, 37)


def test_channels_that_take_two_roundings_have_the_same_bits(rng, monkeypatch):
    """Every third hidden channel and output: groups of 16 of one kind, and of the other."""
    third_in_two_roundings(monkeypatch)
    for block, sizes, batch in (CASES[0], CASES[7]):
        x = image_of(rng, block, batch)
        parts, there = parts_of(rng, block, 11)
        assert 0 < Slid(*there, block.stride).slow < block.hidden
        given = {"stride": block.stride, "input_zero_point": 11, "tile": tile(block, *sizes)}
        same(inverted_residual_int8(nhwc(x), *there, **given), modelled(x, parts, block.stride, 11))


BLOCK = Int8Block(56, 56, 24, 144, 24)


@pytest.mark.parametrize(
    ("block", "changed", "why"),
    [
        (Int8Block(56, 56, 64, 64, 64, expand=False), {}, "need a 1×1 expand"),
        (Int8Block(56, 56, 24, 136, 24), {}, "multiple of 16 hidden channels"),
        (Int8Block(56, 42, 24, 144, 24), {}, "7, 14, 28, 56 or 112 columns"),
        (Int8Block(55, 55, 24, 144, 24, 2), {}, "a half or all of x"),
        (BLOCK, {"tile_h": 3, "strip": 3}, "divides the rows, and is even"),
        (BLOCK, {"tile_h": 7, "strip": 7}, "divides the rows, and is even"),
        (BLOCK, {"tile_w": 28}, "bands take all channels"),
        (BLOCK, {"slice": 64}, "bands take all channels"),
        (BLOCK, {"images": 1}, "bands take all channels"),
        (BLOCK, {"warps": 9}, "9 warps that expand and 1·n that project"),
        (BLOCK, {"images": 4, "warps": 21}, "18 warps that expand and 2·n that project"),
    ],
    ids=str,
)
def test_tiles_that_do_not_suit_a_block(block, changed, why):
    assert BLOCK.problem(tile(BLOCK, 4, 1, 12)) is None
    assert why in (block.problem(replace(tile(BLOCK, 4, 1, 12), **changed)) or "")


def test_what_it_does_not_take_is_named(rng):
    block, sizes, _ = CASES[0]
    _, there = parts_of(rng, block, 3)
    x = nhwc(drawn(rng, 1, block.channels, block.height, block.width))
    with pytest.raises(ValueError, match="bands take all channels"):
        inverted_residual_int8(x, *there, input_zero_point=3, tile=replace(tile(block, *sizes), tile_w=28))
    large = [*there[:2], replace(there[2], small=False)]
    with pytest.raises(ValueError, match="takes small sums of project that fill int8"):
        inverted_residual_int8(x, *large, input_zero_point=3, tile=tile(block, *sizes))


def test_it_is_a_candidate_on_hopper_alone(monkeypatch):
    for capability, there in ((80, False), (90, True), (100, False)):
        monkeypatch.setattr(cuda, "compute_capability", lambda value=capability: value)
        monkeypatch.setattr(cuda, "shared_memory", lambda: 232_448)
        tiles_int8._candidates.cache_clear()
        found = [one for one in tiles_int8.candidates(BLOCK, 256) if one.bands]
        assert (tile(BLOCK, 56, 1, 12) in found) == there
        assert not any(BLOCK.problem(one) or BLOCK.shared(one) > 232_448 for one in found)
        assert tiles_int8.rule(BLOCK, 256).kind in ("fused", "sliding")  # a network puts the others' weights in order
    tiles_int8._candidates.cache_clear()


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("block", "sizes", "batch"), CASES, ids=str)
def test_it_has_no_findings(rng, block, sizes, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, (_, there) = nhwc(image_of(rng, block, batch)), parts_of(rng, block, 5)
    given = {"stride": block.stride, "input_zero_point": 5, "tile": tile(block, *sizes)}
    (report,) = trace_call(lambda: inverted_residual_int8(x, *there, **given), None)
    assert not report.findings
