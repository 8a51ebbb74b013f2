"""Instructions of sparse kernels, counted on the simulator, and the cycles of the busiest unit."""

import numpy as np
import pytest

from common.measure.roofline import Peaks
from common.optimize.sparse import Shape, Tile
from common.optimize.sparse_activations import Synthetic
from common.optimize.sparse_counts import busy, instructions
from common.report import results, tables

SHAPE = Shape(1, 64, 4, 8, 128)
WIDE = Tile(1, 16, 128, warps=2, vector=4, rows=4)
TILES = {"ballot": WIDE, "pixels": WIDE, "dense": WIDE, "tiles": Tile(4, 8, 64, warps=4, rows=1)}


def zeros(share, dtype=np.float32):
    return Synthetic(SHAPE.x, "elements", dtype, seed=3).at(share)


@pytest.mark.parametrize("scheme", ["ballot", "pixels", "dense"])
def test_a_full_input_takes_all_products(scheme):
    made = instructions(SHAPE, scheme, TILES[scheme], zeros(0.0))
    assert 32 * made["fma"] == SHAPE.macs and made["mma"] == 0


def test_tensor_cores_take_three_products_in_fp32():
    fp32 = instructions(SHAPE, "tiles", TILES["tiles"], zeros(0.0))["mma"]
    fp16 = instructions(SHAPE, "tiles", TILES["tiles"], zeros(0.0, np.float16))["mma"]
    assert fp32 == 3 * SHAPE.macs // (16 * 8 * 8) and fp16 == SHAPE.macs // (16 * 8 * 16)


@pytest.mark.parametrize("scheme", ["ballot", "pixels", "tiles"])
def test_an_empty_input_takes_none(scheme):
    made = instructions(SHAPE, scheme, TILES[scheme], zeros(1.0))
    assert made["fma"] == made["mma"] == 0


def test_ballot_follows_scattered_zeros_and_pixels_does_not():
    full, half = (instructions(SHAPE, "ballot", WIDE, zeros(share))["fma"] for share in (0.0, 0.5))
    assert 0.45 < half / full < 0.65
    assert instructions(SHAPE, "pixels", WIDE, zeros(0.5)) == instructions(SHAPE, "pixels", WIDE, zeros(0.0))


def test_ballot_keeps_the_loads_busy_and_not_the_fma_units():
    peaks = Peaks.recorded(results.load(tables.CARD))
    units = busy(SHAPE, "ballot", WIDE, zeros(0.0), peaks)
    assert units["FMA"] == SHAPE.macs / 128 and units["tensor"] == 0
    assert units["load/store"] > 3 * units["FMA"]
    assert busy(SHAPE, "tiles", TILES["tiles"], zeros(0.0), peaks)["tensor"] > 0


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shape must be a 1×1 convolution of one picture, got 4×8 64>32 3×3"):
        instructions(Shape(1, 64, 4, 8, 32, (3, 3)), "ballot", WIDE, zeros(0.0))
