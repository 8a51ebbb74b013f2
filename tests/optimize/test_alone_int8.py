"""The block in int8 by single warps (alone_int8.cu, stem_int8.cu): the bits of its three convolutions."""

import re
from dataclasses import replace

import numpy as np
import pytest
from int8_checks import drawn, modelled, nhwc, same, third_in_two_roundings
from test_sliding_int8 import PICTURES, SCALES, compared, image_of, parts_of, quantized
from tiers import long

from common import cuda
from common.cuda.device import as_if
from common.kernels import int8
from common.kernels.traced import trace_call
from common.optimize import blocks_int8
from common.optimize.blocks_int8 import Int8Block, Int8Tile, Slid, factors, inverted_residual_int8

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

STEMS = [
    # an odd number of the picture's rows; strips that do not divide the rows; a warp without an item
    (Int8Block(9, 14, 3, 32, 16, 1, True, 17, 28), tile(4, 4), 1),
    # two segments, a strip as high as the image, and higher; a warp takes one item after the other
    (Int8Block(6, 28, 3, 32, 16, 1, True, 12, 56), tile(6, 2), 2),
    (Int8Block(5, 14, 3, 32, 16, 1, True, 10, 28), tile(7, 1), 3),
    # steps as many as rows, and two more
    (Int8Block(4, 14, 3, 32, 16, 1, True, 8, 28), tile(2, 3), 2),
    (Int8Block(3, 14, 3, 32, 16, 1, True, 5, 28), tile(1, 2), 1),
]


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_as_many_blocks_share_a_multiprocessor_as_a_tile_says(blocks):
    """Of an H200: 228 KiB for all, of which a block takes 1 KiB besides its own."""
    block, small = Int8Block(28, 28, 16, 32, 16), tile(1, 2, blocks)
    with as_if(90, 132, 232_448):
        assert block.reserved(small) > block.shared(small)
        assert 233_472 // (block.reserved(small) + 1024) == blocks
        large = tile(7, 3, 1)
        wide = Int8Block(14, 14, 160, 960, 160)
        assert wide.reserved(large) == wide.shared(large) > 116_000


@pytest.fixture
def one_block(monkeypatch):
    """Launches have one thread block, whose warps take one item after the other."""
    monkeypatch.setattr(Int8Block, "blocks", lambda *_: 1)


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "tile", "batch"), STEMS, ids=str)
def test_a_stem_is_its_three_convolutions(rng, one_block, block, tile, batch, zero):
    compared(rng, block, tile, batch, zero)


@pytest.mark.parametrize("dtype", PICTURES)
@pytest.mark.parametrize(("scale", "zero"), [*SCALES, (np.float32(2 / 255), -128)])
def test_a_stem_quantizes_its_picture(rng, one_block, dtype, scale, zero):
    quantized(rng, *STEMS[0], dtype, scale, zero)
    quantized(rng, *STEMS[1], dtype, scale, zero)


def test_halves_whose_inverse_of_one_float_is_not_enough(rng):
    (high, low) = factors(0.03, np.dtype(np.float16))
    assert high + low > 33 and low > 0
    quantized(rng, *STEMS[0], "float16", np.float32(0.03), 4)


@pytest.mark.parametrize("dtype", PICTURES)
def test_factors_are_those_of_a_division(rng, dtype):
    """Where `factors` says so, which it does of nearly all scales: of numbers around each step, as a model."""
    scales = np.exp(rng.uniform(-9, 1, 100)).astype(np.float32)
    found = [(scale, factors(float(scale), np.dtype(dtype))) for scale in scales]
    assert sum(pair is not None for _, pair in found) > 95
    assert sum(pair[1] == 0 for _, pair in found if pair) >= 90 * (dtype == "float16")
    for scale, pair in found[:20]:
        if pair is not None:
            x = (rng.integers(-300, 300, 1000).astype(np.float32) / 2 * scale).astype(dtype).astype(np.float32)
            made = np.rint(int8.fma(x, pair[0], x * pair[1]))
            np.testing.assert_array_equal(np.clip(made, -128, 127), int8.quantize(x, float(scale), 0))
    assert factors(1e-30, np.dtype(dtype)) is None


@pytest.mark.parametrize("slow", [((3,), (6,)), ((0, 7, 14, 22, 31), (1, 11)), (range(32), range(16))], ids=str)
def test_fours_that_take_two_roundings_have_the_same_bits(rng, monkeypatch, slow):
    """Of hidden channels as few fours as hold them, behind the others; of outputs those that are 4t + j."""
    right, wrong = blocks_int8.one_step, {32: set(slow[0]), 16: set(slow[1])}

    def some(*given):
        made, exact = right(*given)
        wrong[len(exact)] |= set(np.flatnonzero(~exact))
        return made, ~np.isin(np.arange(len(exact)), list(wrong[len(exact)]))

    monkeypatch.setattr(blocks_int8, "one_step", some)
    block, tile, batch = STEMS[0]
    x = image_of(rng, block, batch)
    parts, there = parts_of(rng, block, 11)
    slid = Slid(*there, 1)
    slid.stem()
    assert slid.slow_of_stem == -(-len(wrong[32]) // 4)
    assert slid.slow_outputs == sum(1 << j for j in {int(o) % 4 for o in wrong[16]})
    out = inverted_residual_int8(nhwc(x), *there, input_zero_point=11, tile=tile, slid=slid)
    same(out, modelled(x, parts, 1, 11))


def test_what_a_stem_does_not_take(rng, monkeypatch):
    block, tile, _ = STEMS[0]
    _, there = parts_of(rng, block, 3)
    x, given = nhwc(image_of(rng, block, 1)), {"input_zero_point": 3, "tile": tile}
    with pytest.raises(ValueError, match="takes small sums of project that fill int8"):
        inverted_residual_int8(x, *there[:2], replace(there[2], small=False), **given)
    with pytest.raises(ValueError, match="needs a chained tile or single warps"):
        inverted_residual_int8(x, *there, input_zero_point=3, tile=replace(tile, alone=False))
    monkeypatch.setattr(blocks_int8, "factors", lambda *_: None)
    picture = cuda.to_layout(cuda.asarray(np.zeros((1, 3, block.stem_h, block.stem_w), np.float32)), "NHWC")
    with pytest.raises(ValueError, match="scale must be one that `factors` takes"):
        inverted_residual_int8(picture, *there, **given, scale=0.02)


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "tile", "batch"), CASES, ids=str)
def test_it_is_its_three_convolutions(rng, block, tile, batch, zero):
    compared(rng, block, tile, batch, zero)


@pytest.mark.parametrize(("block", "tile", "batch"), [CASES[0], CASES[5]], ids=str)
def test_channels_that_take_two_roundings_have_the_same_bits(rng, monkeypatch, block, tile, batch):
    """Every third one, of the hidden channels and of the outputs: planes of one kind, and of the other."""
    third_in_two_roundings(monkeypatch)
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
        (Int8Block(12, 28, 3, 24, 16, 1, True, 23, 56), tile(4, 2), "32 hidden channels, 16 outputs and stride 1"),
        (Int8Block(12, 28, 3, 32, 16, 1, True, 23, 55), tile(4, 2), "an even number of columns"),
        (Int8Block(12, 16, 3, 32, 16, 1, True, 23, 32), tile(4, 2), "14·n columns"),
        (Int8Block(12, 28, 3, 32, 16, 1, True, 23, 56), tile(15, 2), "1 to 14 rows"),
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
@pytest.mark.parametrize(("block", "tile", "batch"), [*CASES, *STEMS], ids=str)
def test_it_has_no_findings(rng, block, tile, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, (_, there) = nhwc(image_of(rng, block, batch)), parts_of(rng, block, 5)
    given = {"stride": block.stride, "input_zero_point": 5, "tile": tile}
    (report,) = trace_call(lambda: inverted_residual_int8(x, *there, **given), None)
    assert not report.findings
