"""common/kernels/int8_operators.py: the kernels with the model's arguments give the model's results."""

import numpy as np
import pytest
from int8_checks import constants, drawn

from common import cuda, kernels
from common.kernels import int8
from common.kernels.int8_operators import OPERATORS
from common.kernels.ladder import recorded

WINDOW = {"input_zero_point": 12}
# weight, groups, window; the operator that runs it
CONVOLUTIONS = [
    ((10, 6, 1, 1), {"stride": (1, 1), "padding": ((0, 0), (0, 0)), **WINDOW}, "pointwise_int8"),
    ((10, 6, 1, 1), {"stride": 2, **WINDOW}, "conv2d_int8"),
    ((6, 1, 3, 3), {"groups": 6, "padding": 1, **WINDOW}, "depthwise_int8"),
    ((12, 1, 3, 3), {"groups": 6, "padding": 1, **WINDOW}, "conv2d_int8"),  # a depth multiplier of 2
    ((5, 6, 3, 2), {"dilation": 2, "padding": ((0, 1), (2, 0)), **WINDOW}, "conv2d_int8"),
]


@pytest.mark.parametrize(("shape", "window", "operator"), CONVOLUTIONS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_convolutions(rng, shape, window, operator, per_channel):
    x, weight = drawn(rng, 2, 6, 9, 7), drawn(rng, *shape)
    zero_point, bias, multiplier = constants(rng, weight)
    multiplier = multiplier if per_channel else float(multiplier[0])
    given = {"zero_point": zero_point, "bounds": (zero_point, 120), **window}
    want = int8.conv2d(x, weight, bias, multiplier, **given)
    got = OPERATORS["conv2d"](x, weight, bias, multiplier, **given)
    np.testing.assert_array_equal(got, want, strict=True)
    with recorded() as launches:
        OPERATORS["conv2d"](x, weight, bias, multiplier, **given)
    assert [launch.name.split("/")[0] for launch in launches] == [operator]


def test_a_residual_and_weights_of_int16(rng):
    x, weight, residual = drawn(rng, 2, 6, 5, 7), drawn(rng, 6, 6, 1, 1), drawn(rng, 2, 6, 5, 7)
    zero_point, bias, multiplier = constants(rng, weight)
    more = {"residual": residual, "residual_scales": (0.5, 0.7, 3.0), "residual_offset": 128, "zero_point": zero_point}
    want = int8.conv2d(x, weight, bias, multiplier, **more)
    np.testing.assert_array_equal(OPERATORS["conv2d"](x, weight, bias, multiplier, **more), want)
    wide = (weight.astype(np.int16) + 100).astype(np.int16)
    want = int8.conv2d(x, wide, bias, multiplier)
    np.testing.assert_array_equal(OPERATORS["conv2d"](x, wide, bias, multiplier), want)


def test_matrices(rng):
    x, weight = drawn(rng, 3, 4, 2, 5), drawn(rng, 7, 40)
    zero_point, bias, multiplier = constants(rng, weight)
    for w in (weight, weight.astype(np.int16) - 60):
        acc = int8.linear_accumulate(x.reshape(3, 40), w, bias)
        got = OPERATORS["linear"](x, w, bias, multiplier, zero_point=zero_point, bounds=(-100, 100))
        np.testing.assert_array_equal(got, int8.requantize(acc, multiplier, zero_point, -100, 100), strict=True)
        got = OPERATORS["linear_to_float"](x, w, bias, multiplier)
        np.testing.assert_array_equal(got, int8.scaled(acc, multiplier), strict=True)


def test_the_rest(rng):
    x, y = drawn(rng, 2, 6, 9, 7), drawn(rng, 2, 6, 9, 7)
    real = rng.standard_normal(x.shape).astype(np.float32)
    points = {"input_zero_point": 3, "zero_point": -20}
    windows = {"stride": 2, "padding": 1, **points}
    cases = [
        ("add", (x, y, (0.5, 0.4, 2.0)), {"offset": 128}, int8.add(x, y, (0.5, 0.4, 2.0), offset=128)),
        ("add", (x, y, (0.5, 0.4, 2.0)), {"bounds": (-9, 9)}, int8.add(x, y, (0.5, 0.4, 2.0), -9, 9)),
        ("add", (x, y[:, :, :1, :1], (0.5, 0.4, 2.0)), {}, int8.add(x, y[:, :, :1, :1], (0.5, 0.4, 2.0))),
        ("global_avg_pool", (x, 1.7), points, int8.global_avg_pool(x, 1.7, **points)),
        ("avg_pool2d", (x, 3, 1.7), windows, int8.avg_pool2d(x, 3, 1.7, **windows)),
        ("quantize", (real, 0.02, 3), {}, int8.quantize(real, 0.02, 3)),
        ("dequantize", (x, 0.02, 3), {}, int8.dequantize(x, 0.02, 3)),
    ]  # fmt: skip
    for name, arrays, given, want in cases:
        np.testing.assert_array_equal(OPERATORS[name](*arrays, **given), want, strict=True, err_msg=name)
    assert {name for name, *_ in cases} | {"conv2d", "linear", "linear_to_float"} == set(OPERATORS)


def test_arrays_of_the_device_stay_there(rng):
    x = cuda.to_layout(cuda.asarray(drawn(rng, 1, 4, 3, 3)), "NHWC")
    assert type(OPERATORS["global_avg_pool"](x, 1.0)) is type(kernels.global_avg_pool_int8(x, 1.0))
