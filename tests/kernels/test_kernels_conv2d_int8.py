"""conv2d_int8 and depthwise_int8: every rung equals the NumPy model, bit for bit."""

import sys

import numpy as np
import pytest
from int8_checks import constants, drawn, in_one_step, nhwc, poisoned, same
from kernel_checks import every_rung
from tiers import only_all

from common import cuda, kernels
from common.cuda import layout as layouts
from common.kernels import int8

# N, C, H, W, O, kernel, stride, padding, dilation; the second: MobileNetV2's stem; K of 27, 32, 96 and more
CONVOLUTIONS = [
    (1, 1, 1, 1, 1, (1, 1), 1, 0, 1), (2, 3, 17, 13, 32, (3, 3), 2, 1, 1), (1, 32, 5, 7, 33, (3, 1), 1, (1, 0), 1),
    (1, 5, 9, 8, 7, (3, 2), (2, 1), ((2, 0), (0, 1)), 1), (2, 16, 7, 9, 24, (3, 3), 1, 2, 2),
    *only_all([(2, 3, 65, 33, 16, (3, 3), 2, ((0, 1), (0, 1)), 1), (1, 64, 14, 14, 96, (5, 5), 1, 2, 1)]),
]  # fmt: skip


@pytest.mark.parametrize("shape", CONVOLUTIONS)
@every_rung("conv2d_int8")
def test_every_rung_is_the_model(rng, shape, variant):
    n, c, h, w, o, kernel, stride, padding, dilation = shape
    x, weight = drawn(rng, n, c, h, w), drawn(rng, o, c, *kernel)
    zero_point, bias, multiplier = constants(rng, weight)
    where = {"stride": stride, "padding": padding, "dilation": dilation, "input_zero_point": -77}
    bias = int8.fold_zero_point(weight, bias, -77)
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point, bounds=(-100, 101), **where)
    arrays = [nhwc(x), nhwc(weight), *map(cuda.asarray, (bias, multiplier))]
    out = poisoned(*want.shape)
    kernels.conv2d_int8(*arrays, **where, zero_point=zero_point, bounds=(-100, 101), out=out, variant=variant)
    same(out, want)
    more = {
        "residual": drawn(rng, *want.shape),
        "residual_scales": int8.residual_scales((1, zero_point), (0.7, 5), (1.3, -8)),
    }
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point, **more, **where)
    given = more | {"residual": nhwc(more["residual"])}
    same(kernels.conv2d_int8(*arrays, **where, zero_point=zero_point, **given, variant=variant), want)


def test_groups(rng):
    x, weight = drawn(rng, 2, 6, 7, 5), drawn(rng, 4, 3, 3, 3)
    zero_point, bias, multiplier = constants(rng, weight)
    given = {"stride": 1, "padding": 1, "groups": 2, "input_zero_point": 9, "zero_point": zero_point}
    arrays = [nhwc(x), nhwc(weight), *map(cuda.asarray, (bias, multiplier))]
    same(kernels.conv2d_int8(*arrays, **given), int8.conv2d(x, weight, bias, multiplier, **given))
    with pytest.raises(ValueError, match="'tensor_cores' takes groups 1, got 2"):
        kernels.conv2d_int8(*arrays, **given, variant="tensor_cores")


# N, C, H, W, kernel, stride, padding, dilation
DEPTHWISE = [
    (1, 4, 1, 1, 3, 1, 1, 1), (2, 8, 7, 7, 3, 1, 1, 1), (1, 24, 17, 13, 3, 2, 1, 1),
    (3, 12, 5, 33, 3, 1, ((0, 2), (1, 0)), 1),
    (1, 4, 9, 8, 3, 2, ((0, 1), (0, 1)), 1), *only_all([(2, 144, 28, 28, 3, 2, 1, 1), (1, 96, 31, 29, 3, 1, 1, 1)]),
]  # fmt: skip
OTHERS = [(1, 7, 5, 6, 3, 1, 1, 1), (2, 3, 9, 7, (5, 2), (3, 1), 2, (1, 2))]  # which dp4a does not take


@pytest.mark.parametrize(
    ("shape", "variant"),
    [(s, v) for s in DEPTHWISE for v in kernels.variants("depthwise_int8")] + [(s, None) for s in OTHERS],
)
def test_depthwise_is_the_model(rng, shape, variant):
    n, c, h, w, kernel, stride, padding, dilation = shape
    x, weight = drawn(rng, n, c, h, w), drawn(rng, c, 1, *np.broadcast_to(kernel, 2))
    zero_point, bias, multiplier = constants(rng, weight)
    where = {"stride": stride, "padding": padding, "dilation": dilation, "input_zero_point": -128}
    bias = int8.fold_zero_point(weight, bias, -128)
    want = int8.conv2d(x, weight, bias, multiplier, zero_point=zero_point, bounds=(zero_point, 101), groups=c, **where)
    out = poisoned(*want.shape)
    kernels.depthwise_int8(
        nhwc(x), *map(cuda.asarray, (weight, bias, multiplier)), **where, zero_point=zero_point,
        bounds=(zero_point, 101), out=out, variant=variant,
    )  # fmt: skip
    same(out, want)


STRIPS = [
    (2, 8, 7, 7, 1, 1), (3, 12, 5, 6, 1, 1), (1, 4, 9, 30, 1, 1), (2, 8, 7, 9, 2, 1), (1, 8, 8, 8, 2, ((0, 1), (0, 1))),
    (1, 4, 2, 19, 1, ((0, 2), (1, 0))), *only_all([(2, 960, 7, 7, 1, 1), (1, 144, 56, 56, 1, 1)]),
]  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("shape", STRIPS, ids=str)
def test_strips_requantize_in_three_ways(rng, monkeypatch, shape, rows):
    """Strips as wide as the image and several in a row; of any sums, of small ones, and by one fma."""
    monkeypatch.setattr(sys.modules["common.kernels.depthwise_int8"], "_rows", lambda strips, height: rows)
    n, c, h, w, stride, padding = shape
    x, weight = drawn(rng, n, c, h, w), drawn(rng, c, 1, 3, 3)
    zero_point, bias, multiplier = constants(rng, weight)
    bias = int8.fold_zero_point(weight, bias, -9)
    multiplier, made = in_one_step(weight, bias, multiplier, zero_point)
    assert int8.small_sums(weight, bias, multiplier)
    where = {"stride": stride, "padding": padding, "input_zero_point": -9, "zero_point": zero_point}
    want = int8.conv2d(x, weight, bias, multiplier, groups=c, **where)
    for more in ({}, {"small": True}, {"one_step": cuda.asarray(made)}):
        out = poisoned(*want.shape)
        there = map(cuda.asarray, (weight, bias, multiplier))
        kernels.depthwise_int8(nhwc(x), *there, **where, **more, out=out, variant="strips")
        same(out, want)


def test_narrow_images_of_many_channels_are_computed_by_strips(rng):
    """Where enough threads have a strip each; else two columns per thread, which are more threads."""
    for n, side, rung in ((256, 7, "strips"), (1, 7, "dp4a"), (256, 14, "dp4a")):
        x, weight = layouts.empty((n, 960, side, side), np.dtype(np.int8), "NHWC"), cuda.empty((960, 1, 3, 3), np.int8)
        with kernels.recorded() as launches:
            kernels.depthwise_int8(x, weight, None, cuda.full(960, 1.0), 1, 1)
        assert [one.name for one in launches] == [f"depthwise_int8/{rung}"]


@pytest.mark.parametrize("operator", ["conv2d_int8", "depthwise_int8"])
def test_padding_is_the_zero_point_and_not_zero(rng, operator):
    """A constant picture of the real number 0, whatever stands for it, convolves to the bias alone."""
    depth = 1 if operator == "depthwise_int8" else 4
    x, weight = np.full((1, 4, 5, 5), 93, np.int8), drawn(rng, 4, depth, 3, 3)
    bias = int8.fold_zero_point(weight, np.array([10, -20, 30, 40], np.int32), 93)
    for variant in kernels.variants(operator):
        got = getattr(kernels, operator)(
            nhwc(x), nhwc(weight), cuda.asarray(bias), cuda.full(4, 1.0), 1, 1, input_zero_point=93, variant=variant
        )
        same(got, np.broadcast_to(np.array([10, -20, 30, 40], np.int8).reshape(1, 4, 1, 1), (1, 4, 5, 5)))
