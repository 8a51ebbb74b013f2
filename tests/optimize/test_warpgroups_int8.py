"""The block in int8 by two warpgroups (warpgroups_int8.cu): the bits of its three convolutions."""

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
    cuda.backend() == "gpu" and cuda.compute_capability() != 90, reason="wgmma is in sm_90 alone"
)


def tile(block):
    return Int8Tile(*block.out_size, slice=64, warpgroups=True)


CASES = [
    # as few slices as there may be, an odd number; one image after the other
    (Int8Block(14, 14, 64, 192, 64), 3),
    # an even number of slices; a third of a row of x in shared memory is empty
    (Int8Block(14, 14, 96, 256, 96), 2),
    # an odd number of rows: the last one has no second
    (Int8Block(9, 14, 32, 192, 32), 1),
    # stride 2: each warpgroup has half of the outputs
    (Int8Block(14, 14, 96, 192, 160, 2), 2),
    (Int8Block(10, 14, 64, 256, 64, 2), 1),
    (Int8Block(3, 14, 32, 192, 96, 2), 1),
    # few rows: each warpgroup has half of the outputs at stride 1, too
    (Int8Block(4, 14, 32, 192, 96), 1),
    (Int8Block(5, 14, 32, 192, 192, 2), 1),
]


@pytest.fixture
def one_block(monkeypatch):
    """Launches have one thread block, which takes one image after the other."""
    monkeypatch.setattr(Int8Block, "blocks", lambda *_: 1)


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "batch"), CASES, ids=str)
def test_it_is_its_three_convolutions(rng, one_block, block, batch, zero):
    compared(rng, block, tile(block), batch, zero)


def test_blocks_take_images_by_turns(rng, monkeypatch):
    """Three images, two thread blocks: one has two of them."""
    monkeypatch.setattr(Int8Block, "blocks", lambda *_: 2)
    compared(rng, CASES[0][0], tile(CASES[0][0]), 3, 37)


def test_channels_that_take_two_roundings_have_the_same_bits(rng, monkeypatch):
    """Every third hidden channel: groups of 16 of one kind, and of the other."""
    third_in_two_roundings(monkeypatch)
    for block, batch in (CASES[0], CASES[3]):
        x = image_of(rng, block, batch)
        parts, there = parts_of(rng, block, 11)
        assert 0 < Slid(*there, block.stride).slow < block.hidden
        given = {"stride": block.stride, "input_zero_point": 11, "tile": tile(block)}
        same(inverted_residual_int8(nhwc(x), *there, **given), modelled(x, parts, block.stride, 11))


def test_sums_of_project_need_not_be_small(rng):
    block, batch = CASES[1]
    x = image_of(rng, block, batch)
    parts, there = parts_of(rng, block, 3)
    there[2] = replace(there[2], small=False)
    out = inverted_residual_int8(nhwc(x), *there, input_zero_point=3, tile=tile(block))
    same(out, modelled(x, parts, 1, 3))


@pytest.mark.parametrize(
    ("block", "changed", "why"),
    [
        (Int8Block(14, 14, 64, 64, 64, expand=False), {}, "need a 1×1 expand"),
        (Int8Block(14, 28, 64, 192, 64), {}, "images of 14 columns"),
        (Int8Block(28, 14, 64, 192, 64), {}, "at most 14 rows"),
        (Int8Block(14, 14, 48, 192, 64), {}, "32, 64, 96 or 128 channels"),
        (Int8Block(14, 14, 160, 192, 64), {}, "32, 64, 96 or 128 channels"),
        (Int8Block(14, 14, 64, 128, 64), {}, "192, 256, … hidden ones"),
        (Int8Block(14, 14, 64, 200, 64), {}, "192, 256, … hidden ones"),
        (Int8Block(14, 14, 64, 192, 160), {}, "32, 64 or 96 outputs"),
        (Int8Block(14, 14, 64, 192, 80), {}, "32, 64 or 96 outputs"),
        (Int8Block(14, 14, 64, 192, 64), {"tile_h": 7}, "warpgroups take Int8Tile"),
        (Int8Block(14, 14, 64, 192, 64), {"images": 2}, "warpgroups take Int8Tile"),
    ],
    ids=str,
)
def test_tiles_that_do_not_suit_a_block(block, changed, why):
    assert why in (block.problem(replace(tile(block), **changed)) or "")


def test_what_it_does_not_take_is_named(rng):
    block, _ = CASES[0]
    _, there = parts_of(rng, block, 3)
    x = nhwc(drawn(rng, 1, block.channels, block.height, block.width))
    with pytest.raises(ValueError, match="warpgroups take Int8Tile"):
        inverted_residual_int8(x, *there, input_zero_point=3, tile=replace(tile(block), tile_h=7))


def test_it_is_a_candidate_on_hopper_alone(monkeypatch):
    block = Int8Block(14, 14, 96, 576, 96)
    for capability, there in ((80, False), (90, True), (100, False)):
        monkeypatch.setattr(cuda, "compute_capability", lambda value=capability: value)
        tiles_int8._candidates.cache_clear()
        assert (tile(block) in tiles_int8.candidates(block, 256)) == there
        assert not tiles_int8.rule(block, 256).warpgroups  # its weights are put in order once, by a network
    tiles_int8._candidates.cache_clear()


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("block", "batch"), CASES, ids=str)
def test_it_has_no_findings(rng, one_block, block, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, (_, there) = nhwc(image_of(rng, block, batch)), parts_of(rng, block, 5)
    given = {"stride": block.stride, "input_zero_point": 5, "tile": tile(block)}
    (report,) = trace_call(lambda: inverted_residual_int8(x, *there, **given), None)
    assert not report.findings
