"""The fused block in int8 whose hidden channels slide through registers: the bits of its three convolutions."""

from dataclasses import replace

import numpy as np
import pytest
from int8_checks import block_of, drawn, modelled, nhwc, poisoned, same, there_of
from tiers import long

from common import cuda
from common.kernels import int8, one_step
from common.kernels.traced import trace_call
from common.optimize import blocks_int8
from common.optimize.blocks_int8 import Int8Block, Int8Tile, Slid, divides, inverted_residual_int8

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


def tile(h, w, images=1, slice=32, strip=1, warps=2, warps_n=1, pixel_warps=1, blocks=1, split=1):
    return Int8Tile(h, w, images, slice, strip, warps, warps_n, True, pixel_warps, blocks, split)


CASES = [
    # two segments, a tail of hidden channels and of rows; 24 channels of x: half of the last 16 are none
    (Int8Block(10, 28, 24, 72, 24), tile(4, 28, slice=48, strip=4, warps=3), 1),
    # halos on all sides, several warps to a plane, one slice
    (Int8Block(9, 17, 16, 32, 40), tile(4, 14, slice=32, strip=2, warps=4, pixel_warps=2, warps_n=2), 2),
    # a narrow tile; a tail of 8 hidden channels; two steps of products
    (Int8Block(6, 11, 40, 40, 8), tile(3, 5, slice=16, strip=3, warps=2, pixel_warps=2), 1),
    # images of 7 columns side by side, an odd number of units
    (Int8Block(7, 7, 48, 96, 16), tile(7, 7, 3, slice=96, strip=7, warps=2), 4),
    # stride 2: two segments of 7; odd sizes
    (Int8Block(12, 28, 16, 96, 24, 2), tile(3, 14, slice=32, strip=3, warps=2), 1),
    (Int8Block(13, 15, 24, 48, 32, 2), tile(2, 8, slice=48, strip=1, warps=3, warps_n=1), 1),
    (Int8Block(14, 14, 32, 64, 24, 2), tile(7, 7, 2, slice=32, strip=7, warps=2), 3),
    # a stem: images of an odd number of rows, tiles beyond the image, several images; a tail of hidden channels
    (Int8Block(9, 14, 3, 24, 8, 1, True, 17, 28), tile(4, 14, slice=16, strip=2, warps=2, pixel_warps=2), 2),
    (Int8Block(8, 16, 3, 32, 16, 1, True, 16, 32), tile(8, 14, slice=32, strip=8, warps=2), 1),
    # without expand: the hidden channels are those of x
    (Int8Block(11, 16, 32, 32, 16, expand=False), tile(4, 14, slice=32, strip=4, warps=2), 2),
    (Int8Block(9, 9, 40, 40, 24, 2, expand=False), tile(5, 5, slice=48, strip=5, warps=1), 1),
    # clusters of 2, 3 and 4 blocks: one has a slice less; 30 quarters are no multiple of 4 blocks
    (Int8Block(6, 14, 16, 80, 40), tile(2, 14, slice=16, strip=2, warps=2, pixel_warps=2, split=2), 1),
    (Int8Block(7, 7, 24, 96, 72), tile(7, 7, slice=32, strip=7, warps=4, pixel_warps=2, warps_n=2, split=3), 2),
    (Int8Block(9, 7, 16, 64, 16, 2), tile(2, 4, slice=16, strip=1, split=4, pixel_warps=2), 1),
    # a warp has one item, so much is done before x comes: two items of x, one of 16 channels; a last slice of 8
    (Int8Block(5, 14, 32, 64, 32), tile(2, 14, slice=64, strip=1, warps=8, warps_n=2, pixel_warps=2), 2),
    (Int8Block(7, 7, 24, 40, 24), tile(2, 7, slice=16, strip=1, warps=1, split=3), 1),
    (Int8Block(9, 14, 40, 80, 24, 2), tile(1, 7, slice=80, strip=1, warps=5, warps_n=5), 1),
    # two of six blocks finish no output
    (Int8Block(4, 4, 16, 96, 8), tile(1, 4, slice=16, strip=1, warps=1, split=6), 1),
    # clusters whose blocks exchange 32·n outputs, of 8 pixels at once: an odd number of pixels, and fewer than 8
    (Int8Block(7, 7, 32, 96, 32), tile(7, 7, slice=32, strip=7, warps=4, pixel_warps=2, split=3), 1),
    (Int8Block(5, 7, 24, 96, 64), tile(1, 7, slice=48, strip=1, warps=3, split=2), 2),
    # x is its own residual, without expand
    (Int8Block(5, 9, 32, 32, 32, expand=False), tile(3, 9, slice=32, strip=3, warps=2), 2),
]


def image_of(rng, block, batch):
    return drawn(
        rng, batch, block.channels, *((block.stem_h, block.stem_w) if block.stem_h else (block.height, block.width))
    )


def in_one_step(part):
    """A convolution whose channels are all requantized in one step: then a kernel has no code for two."""
    return replace(part, multiplier=one_step.nearest(part.weight, part.bias, part.multiplier, part.zero_point))


def parts_of(rng, block, zero):
    """The convolutions, with outputs that fill int8, and as the kernel takes them; of zero −128 `in_one_step`."""
    parts = [part and replace(part, bounds=(-128, 127)) for part in block_of(rng, block, zero)]
    if zero == -128:
        parts = [part and in_one_step(replace(part, zero_point=-128)) for part in parts]
    there = [part and replace(there_of(part), small=True) for part in parts]
    return parts, there


def compared(rng, block, tile, batch, zero):
    """Compare a block with its three convolutions, without a residual and with one; (x, parts, there, given, residual).

    given: the arguments of the last call, besides x, the convolutions and the residual.
    """
    x = image_of(rng, block, batch)
    parts, there = parts_of(rng, block, zero)
    assert zero != -128 or Slid(*there, block.stride).slow == 0
    given = {"stride": block.stride, "input_zero_point": zero, "tile": tile}
    want = modelled(x, parts, block.stride, zero)
    out = poisoned(*want.shape)
    inverted_residual_int8(nhwc(x), *there, **given, out=out)
    same(out, want)
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))
    if zero == 37:
        parts[2], there[2] = replace(parts[2], bounds=(-100, 90)), replace(there[2], bounds=(-100, 90))
    more = {"residual_scales": scales, "residual_first": block.stride == 2}
    want = modelled(x, parts, block.stride, zero, residual=residual, **more)
    same(inverted_residual_int8(nhwc(x), *there, **given, residual=nhwc(residual), **more), want)
    return x, parts, there, given | more, residual


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("block", "tile", "batch"), CASES)
def test_it_is_its_three_convolutions(rng, block, tile, batch, zero):
    x, parts, there, given, residual = compared(rng, block, tile, batch, zero)
    more = {name: given[name] for name in ("residual_scales", "residual_first")}
    want = modelled(x, parts, block.stride, zero, residual=residual, **more, residual_offset=128)
    same(inverted_residual_int8(nhwc(x), *there, **given, residual_offset=128, residual=nhwc(residual)), want)


OWN = [case for case in CASES if case[0].stride == 1 and case[0].channels == case[0].outputs]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("block", "tile", "batch"), OWN)
def test_x_may_be_its_own_residual(rng, block, tile, batch, small):
    """Then it is read from shared memory. small: whether project's sums are; if not, their end is another one."""
    x, (parts, there) = image_of(rng, block, batch), parts_of(rng, block, 5)
    there[2] = replace(there[2], small=small)
    scales = int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))
    on_device = nhwc(x)
    given = {"residual": on_device, "residual_scales": scales, "input_zero_point": 5, "tile": tile}
    want = modelled(x, parts, 1, 5, residual=x, residual_scales=scales)
    same(inverted_residual_int8(on_device, *there, **given), want)


PICTURES = ("float32", "float16")


SCALES = [(np.float32(2 / 255), -1), (np.float32(0.0186584), 114)]


def quantized(rng, block, tile, batch, dtype, scale, zero):
    """Compare a stem's block of a picture of real numbers with kernel quantize and its three convolutions."""
    shape = batch, 3, block.stem_h, block.stem_w
    x = rng.integers(-300, 300, shape).astype(np.float32) / 2 * scale
    x = (x.view(np.int32) + rng.integers(-2, 3, shape, np.int32)).view(np.float32).astype(dtype)
    x.flat[:6] = np.inf, -np.inf, np.nan, 0, -0.0, 6e4
    parts, there = parts_of(rng, block, zero)
    given = {"stride": block.stride, "input_zero_point": zero, "tile": tile}
    codes = int8.quantize(x.astype(np.float32), float(scale), zero)
    same(inverted_residual_int8(nhwc(x), *there, **given, scale=float(scale)), modelled(codes, parts, 1, zero))


@pytest.mark.parametrize("dtype", PICTURES)
@pytest.mark.parametrize(("scale", "zero"), SCALES)
def test_a_stem_quantizes_its_picture(rng, dtype, scale, zero):
    """As the kernel quantize does: also halves of a step, what is beyond all codes, and what is no number."""
    assert divides(float(scale))
    quantized(rng, *CASES[7], dtype, scale, zero)


def test_quotients_are_those_of_a_division(rng):
    """Where `divides` says so, which it does of nearly all scales; it refuses what is too small to be multiplied."""
    scales = np.exp(rng.uniform(-9, 1, 200)).astype(np.float32)
    assert np.mean([divides(float(scale)) for scale in scales]) > 0.99
    assert not divides(1e-30) and not divides(1e30) and not divides(float("nan"))


def test_channels_that_take_two_steps_have_the_same_bits(rng, monkeypatch):
    """Every third channel: they come last, and share planes of 16 with others."""
    block, tile, batch = CASES[0]
    right = blocks_int8.one_step

    def some(*given):
        made, exact = right(*given)
        return made, exact & (np.arange(len(exact)) % 3 > 0)

    x = drawn(rng, batch, block.channels, block.height, block.width)
    parts, there = parts_of(rng, block, 11)
    assert Slid(*there, 1).slow < block.hidden / 4
    monkeypatch.setattr(blocks_int8, "one_step", some)
    assert block.hidden / 3 <= Slid(*there, 1).slow < block.hidden
    out = inverted_residual_int8(nhwc(x), *there, input_zero_point=11, tile=tile)
    same(out, modelled(x, parts, 1, 11))


def test_what_it_does_not_take(rng):
    block, tile, _ = CASES[0]
    x = nhwc(drawn(rng, 1, block.channels, block.height, block.width))
    _, there = parts_of(rng, block, 3)
    large = replace(there[0], small=False)
    Slid(*there, 1)
    with pytest.raises(ValueError, match="takes small sums of hidden tensors that fill int8"):
        inverted_residual_int8(x, large, *there[1:], input_zero_point=3, tile=tile)


@long  # the same cases are right without it
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("block", "tile", "batch"), CASES)
def test_it_has_no_findings(rng, block, tile, batch):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    x, (_, there) = nhwc(image_of(rng, block, batch)), parts_of(rng, block, 5)
    given = {"stride": block.stride, "input_zero_point": 5, "tile": tile}
    if (block, tile, batch) in OWN:
        given |= {"residual": x, "residual_scales": int8.residual_scales((0.9, 5), (1.1, 6), (1.3, -2))}
    (report,) = trace_call(lambda: inverted_residual_int8(x, *there, **given), None)
    assert not report.findings
