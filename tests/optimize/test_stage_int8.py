"""Consecutive blocks in int8 as one kernel (stage_int8.cu): the bits of their convolutions, one after the other."""

from dataclasses import replace

import numpy as np
import pytest
from int8_checks import drawn, modelled, nhwc, same
from test_sliding_int8 import image_of, parts_of

from common import cuda
from common.kernels import int8
from common.optimize.stage_int8 import Stage, StageBlock, problem, stage_int8
from common.optimize.tiles_int8 import Int8Block

pytestmark = pytest.mark.skipif(
    cuda.backend() == "gpu" and cuda.compute_capability() < 90, reason="clusters are there from sm_90 on"
)


def block(channels, hidden, outputs, stride=1):
    return Int8Block(14, 14, channels, hidden, outputs, stride)


def stage_of(rng, sizes, zero, adds):
    """(StageBlocks, x → the last one's output by the model) of blocks of these sizes."""
    blocks, steps = [], []
    for size, add in zip(sizes, adds, strict=True):
        parts, there = parts_of(rng, block(*size), zero)
        more = {}
        if add:
            scales = int8.residual_scales((0.9, parts[2].zero_point), (1.1, zero), (1.3, -2))
            more = {"residual_scales": scales, "residual_first": add == 2}
        if add and zero == 37:
            parts[2], there[2] = replace(parts[2], bounds=(-100, 90)), replace(there[2], bounds=(-100, 90))
        stride = block(*size).stride
        blocks.append(StageBlock(*there, **more, stride=stride))
        steps.append((parts, stride, more))

    def model(x):
        for parts, stride, more in steps:
            x = modelled(x, parts, stride, zero, **({"residual": x} if more else {}), **more)
        return x

    return blocks, model


CASES = [
    ([(64, 192, 64)], (0,), 1),
    ([(32, 384, 32)], (1,), 2),
    ([(64, 384, 64), (64, 192, 96), (96, 384, 96)], (1, 0, 2), 2),
    ([(64, 192, 64)] * 3, (1, 1, 1), 1),
    ([(96, 384, 160, 2)], (0,), 2),
    ([(64, 192, 96), (96, 192, 192, 2)], (0, 0), 1),
]


@pytest.mark.parametrize("zero", [37, -128])
@pytest.mark.parametrize(("sizes", "adds", "batch"), CASES, ids=str)
def test_it_is_its_blocks_one_after_the_other(rng, sizes, adds, batch, zero):
    blocks, model = stage_of(rng, sizes, zero, adds)
    stage = Stage(tuple(blocks), batch)
    for _ in range(2):  # the same memory, twice
        x = image_of(rng, block(*sizes[0]), batch)
        same(stage_int8(nhwc(x), stage), model(x))
