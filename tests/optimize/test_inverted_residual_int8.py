"""The fused block in int8 equals its three convolutions, one after the other, bit for bit."""

import numpy as np
import pytest
from int8_checks import constants, drawn, nhwc, poisoned, same
from tiers import only_all

from common import cuda
from common.kernels import int8
from common.optimize.blocks_int8 import Int8Block, Int8Convolution, Int8Tile, inverted_residual_int8, rule

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="mma and cp.async need a card of sm_80")


def block_of(rng, block, zero):
    """(expand, depthwise, project) of a block for an input with that zero point, as NumPy arrays."""
    made = []
    shapes = [(block.hidden, block.channels, 1, 1), (block.hidden, 1, 3, 3), (block.outputs, block.hidden, 1, 1)]
    for shape in shapes[0 if block.expand else 1 :]:
        weight = drawn(rng, *shape)
        zero_point, bias, multiplier = constants(rng, weight)
        bounds = (zero_point, 120) if shape is not shapes[2] else (-128, 127)
        made.append(Int8Convolution(weight, int8.fold_zero_point(weight, bias, zero), multiplier, zero_point, bounds))
        zero = zero_point
    return ([] if block.expand else [None]) + made


def modelled(x, parts, stride, zero, **residual):
    """The block as three convolutions of the NumPy model."""
    for i, part in enumerate(parts):
        if part is not None:
            where = {"stride": stride, "padding": 1, "groups": x.shape[1], "input_zero_point": zero} if i == 1 else {}
            more = residual if i == 2 else {}
            given = {"zero_point": part.zero_point, "bounds": part.bounds}
            x = int8.conv2d(x, part.weight, part.bias, part.multiplier, **given, **where, **more)
            zero = part.zero_point
    return x


def on_device(part):
    if part is None:
        return None
    bias = None if part.bias is None else cuda.asarray(part.bias)
    return Int8Convolution(cuda.asarray(part.weight), bias, cuda.asarray(part.multiplier), part.zero_point, part.bounds)


CASES = [
    (Int8Block(7, 7, 24, 96, 24), Int8Tile(7, 7, 2, 64, strip=7, warps=4, warps_n=1), 3),  # whole images, a tail of them
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
    there = [on_device(part) for part in parts]
    given = {"stride": block.stride, "input_zero_point": zero, "tile": tile}
    out = poisoned(*want.shape)
    inverted_residual_int8(nhwc(x), *there, **given, out=out)
    same(out, want)
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, parts[2].zero_point), (1.1, 6), (1.3, -2))
    want = modelled(x, parts, block.stride, zero, residual=residual, residual_scales=scales)
    same(inverted_residual_int8(nhwc(x), *there, **given, residual=nhwc(residual), residual_scales=scales), want)
