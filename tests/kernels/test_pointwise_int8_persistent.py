"""pointwise_int8's rung "persistent": every bit of the model's, for each kind of tile, and what it refuses."""

import numpy as np
import pytest
from int8_checks import constants, drawn, in_one_step, nhwc, poisoned, same
from tiers import long

from common import cuda, kernels
from common.kernels import int8
from common.kernels.pointwise import persistent
from common.kernels.traced import trace_call
from common.measure.roofline import ARITHMETIC

pytestmark = pytest.mark.skipif(
    cuda.backend() == "gpu" and cuda.compute_capability() != 90, reason="wgmma is of sm_90a alone"
)


def tile(bm, bn, teams=1, stages=2, keep=0):
    return {"BM": bm, "BN": bn, "TEAMS": teams, "STAGES": stages, "KEEP": keep}


CASES = [
    # one slice of 48 channels, pixels that no tile divides
    ((2, 48, 7, 5, 32), tile(64, 32)),
    # two teams, weights that stay, two slices, of which the last has 32 channels; outputs that no tile divides
    ((3, 160, 9, 7, 176), tile(64, 96, 2, 3, 1)),
    # two warpgroups, three slices, a ring of two
    ((2, 272, 8, 8, 160), tile(128, 160)),
    # rows go out in two turns; fewer pixels than a tile has
    ((1, 16, 3, 3, 240), tile(64, 240, 1, 2, 1)),
]


def drawn_case(sizes):
    rng = np.random.default_rng(5)
    n, c, h, w, o = sizes
    x, weight = drawn(rng, n, c, h, w), drawn(rng, o, c, 1, 1)
    return rng, x, weight, *constants(rng, weight)


def run(x, weight, bias, multiplier, **given):
    on_device = nhwc(x), nhwc(weight), *map(cuda.asarray, (bias, multiplier))
    return kernels.pointwise_int8(*on_device, variant="persistent", **given)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("sizes", "tile"), CASES, ids=str)
def test_it_is_the_model(sizes, tile, small):
    rng, x, weight, zero, bias, multiplier = drawn_case(sizes)
    given = {"tile": tile, "small": small, "zero_point": zero}
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero)
    out = poisoned(*want.shape)
    run(x, weight, bias, multiplier, **given, out=out)
    same(out, want)
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, zero), (1.1, 6), (1.3, -2))
    for bounds in ((-128, 127), (-100, 90)):
        more = {"residual_scales": scales, "bounds": bounds}
        want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero, residual=residual, **more)
        same(run(x, weight, bias, multiplier, **given, residual=nhwc(residual), **more), want)


@pytest.mark.parametrize("zero", [-7, 8])
def test_sums_of_any_size_and_their_ties(zero):
    """Sums beyond 2^22, which saturate or not; halves between two codes, which go to the even product, not code."""
    rng = np.random.default_rng(5)
    x, weight = drawn(rng, 1, 272, 4, 4), drawn(rng, 32, 272, 1, 1)
    x[:, :, 0], x[:, :, 1] = 127, -128
    weight[:8], weight[8:16] = 127, -128
    x[:, 3:, 2:], weight[16:, 3:] = 0, 0  # and small ones, half of them odd
    weight[16:, :3] //= 64
    multiplier = np.resize(np.float32([2.0**-15, 2.0**-16, 0.5, 0.25]), 32)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.int64), weight[:, :, 0, 0])
    products = sums * multiplier.astype(np.float64)[:, None, None]
    assert np.abs(sums).max() > 2**22 and ((products % 1 == 0.5) & (np.abs(products) < 100)).sum() > 10
    want = int8.conv2d(x, weight, None, multiplier, zero_point=zero)
    for one in (tile(64, 32), tile(64, 32, 2, 2, 1)):
        given = {"variant": "persistent", "tile": one, "zero_point": zero}
        same(kernels.pointwise_int8(nhwc(x), nhwc(weight), None, cuda.asarray(multiplier), **given), want)


@pytest.mark.parametrize(("sizes", "tile"), CASES[:3], ids=str)
def test_codes_by_one_fma(sizes, tile):
    rng, x, weight, zero, bias, multiplier = drawn_case(sizes)
    multiplier, made = in_one_step(weight, bias, multiplier, zero)
    given = {"tile": tile, "zero_point": zero, "one_step": cuda.asarray(made)}
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero)
    same(run(x, weight, bias, multiplier, **given), want)
    more = {"bounds": (zero, 90)}  # clamped to fewer codes than a byte has: not by one fma
    same(
        run(x, weight, bias, multiplier, **given, **more),
        int8.conv2d(x, weight, bias, multiplier, zero_point=zero, **more),
    )
    residual, scales = drawn(rng, *want.shape), int8.residual_scales((0.9, zero), (1.1, 6), (1.3, -2))
    for bounds in ((-128, 127), (-100, 90)):
        more = {"residual_scales": scales, "bounds": bounds}
        want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero, residual=residual, **more)
        same(run(x, weight, bias, multiplier, **given, residual=nhwc(residual), **more), want)


def test_parameters_of_one_fma_are_checked():
    _, x, weight, zero, bias, multiplier = drawn_case(CASES[0][0])
    with pytest.raises(ValueError, match=r"one_step must have shape \(3, 32\)"):
        run(x, weight, bias, multiplier, zero_point=zero, one_step=cuda.asarray(np.zeros((2, 32), np.int32)))
    with pytest.raises(TypeError, match="one_step must be int32, got float32"):
        run(x, weight, bias, multiplier, zero_point=zero, one_step=cuda.asarray(np.zeros((3, 32), np.float32)))


def test_bounds_and_no_bias():
    _, x, weight, zero, _, multiplier = drawn_case(CASES[0][0])
    for small in (False, True):  # small sums that do not fill int8 are clamped as others are
        given = {"zero_point": zero, "bounds": (zero, 90)}
        want = int8.conv2d(x, weight, None, multiplier, **given)
        out = kernels.pointwise_int8(
            nhwc(x), nhwc(weight), None, cuda.asarray(multiplier), variant="persistent", small=small, **given
        )
        same(out, want)


def test_what_tensor_maps_do_not_take_another_rung_computes():
    """Channels that are no multiple of 16."""
    _, x, weight, zero, bias, multiplier = drawn_case((2, 24, 5, 5, 40))
    same(run(x, weight, bias, multiplier, zero_point=zero), int8.conv2d(x, weight, bias, multiplier, zero_point=zero))


def test_its_products_are_those_of_tensor_cores():
    assert kernels.arithmetic("pointwise_int8", "persistent", "int8") == ARITHMETIC["int8"]


def test_errors():
    _, x, weight, _, bias, multiplier = drawn_case(CASES[0][0])
    with pytest.raises(ValueError, match="tile: BM must be 64, 128, 192 or 256, got"):
        run(x, weight, bias, multiplier, tile=tile(32, 32))
    given = nhwc(x), nhwc(weight), *map(cuda.asarray, (bias, multiplier))
    with pytest.raises(ValueError, match='tile needs variant "persistent", got None'):
        kernels.pointwise_int8(*given, tile=tile(64, 32))


def test_candidates_of_int8():
    """Twice as many channels to a slice, outputs of one byte; no tile has more sums than registers."""
    found = persistent.candidates(12544, 160, 960, itemsize=1)
    assert found and all(persistent.problem(one, 12544, 160, 960, itemsize=1) is None for one in found)
    one = tile(128, 128, 1, 4)
    assert persistent.size(one, 12544, 320, 960, itemsize=1) == persistent.size(one, 12544, 160, 960, itemsize=2)
    assert persistent.problem(tile(256, 160), 12544, 160, 960, itemsize=1)


@long
@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize(("sizes", "tile"), CASES, ids=str)
def test_it_has_no_findings(sizes, tile):
    _, x, weight, zero, bias, multiplier = drawn_case(sizes)
    (report,) = trace_call(lambda: run(x, weight, bias, multiplier, zero_point=zero, tile=tile), None)
    assert not report.findings
