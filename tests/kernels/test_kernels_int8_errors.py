"""Wrong arguments of the int8 operators: an error that names the argument; nothing is written."""

import numpy as np
import pytest
from int8_checks import nhwc

from common import cuda, kernels
from common.kernels import int8
from common.optimize.blocks_int8 import Int8Convolution, Int8Tile, inverted_residual_int8


def ones(*shape, dtype=np.int8):
    array = np.ones(shape, dtype)
    return nhwc(array) if len(shape) == 4 else cuda.asarray(array)


def product(operator, **changed):
    """A valid call of a convolution of (2, 8, 5, 3) to as many channels, but for what is changed."""
    deep = 1 if operator == "depthwise_int8" else 8
    size = 1 if operator == "pointwise_int8" else 3
    padding = {} if operator == "pointwise_int8" else {"padding": 1}
    given = {
        "x": ones(2, 8, 5, 3), "weight": ones(8, deep, size, size), "bias": ones(8, dtype=np.int32),
        "multiplier": ones(8, dtype=np.float32), **padding,
    } | changed  # fmt: skip
    return getattr(kernels, operator)(**given)


NCHW = cuda.asarray(np.ones((2, 8, 5, 3), np.int8))
REAL = ones(3, dtype=np.float32)
RESIDUAL = {"residual": ones(2, 8, 5, 3)}
EVERY = [
    ({"x": ones(2, 8, 5, 3, dtype=np.uint8)}, TypeError, "x must be int8, got uint8"),
    ({"x": NCHW}, ValueError, "x must be dense in NHWC, got strides"),
    ({"x": [1]}, TypeError, "x must be an array, got list"),
    ({"weight": ones(8, 8, 1, 1, dtype=np.int16)}, TypeError, "weight must be int8, got int16"),
    ({"bias": ones(8, dtype=np.float32)}, TypeError, "bias must be int32, got float32"),
    ({"bias": ones(7, dtype=np.int32)}, ValueError, r"bias must have shape \(8\), got \(7,\)"),
    ({"multiplier": ones(8, dtype=np.float64)}, TypeError, "multiplier must be float32, got float64"),
    ({"multiplier": 0.5}, TypeError, "multiplier must be an array, got float"),
    ({"zero_point": 128}, ValueError, "zero_point must be an integer from -128 to 127, got 128"),
    ({"zero_point": 1.0}, ValueError, "zero_point must be an integer from -128 to 127, got 1.0"),
    ({"bounds": (3, -3)}, ValueError, r"bounds must be a pair \(low, high\) in order, got \(3, -3\)"),
    ({"bounds": (0, 255)}, ValueError, "bounds must be an integer from -128 to 127, got 255"),
    ({"bounds": 6}, ValueError, r"bounds must be a pair \(low, high\) of integers"),
    ({"variant": "fast"}, ValueError, "variant must be one of .*naive.* got 'fast'"),
]
SOME = [
    ("pointwise_int8", RESIDUAL, ValueError, "residual_scales must be 3 finite numbers, got None"),
    ("conv2d_int8", RESIDUAL | {"residual_scales": (1, 2, np.inf)}, ValueError, "residual_scales must be 3 finite"),
    ("conv2d_int8", RESIDUAL | {"residual_scales": (1, 1, 0), "residual_offset": 1}, ValueError, "residual_offset"),
    ("pointwise_int8", {"residual": ones(2, 8, 5, 4)}, ValueError, r"residual must have shape \(2, 8, 5, 3\)"),
    ("depthwise_int8", {"input_zero_point": -129}, ValueError, "input_zero_point must be an integer from -128 to 127"),
    ("depthwise_int8", {"weight": ones(8, 1, 2, 2), "variant": "dp4a"}, ValueError, "takes 3×3 filters .* got 2×2"),
]  # fmt: skip


@pytest.mark.parametrize("operator", ["pointwise_int8", "conv2d_int8", "depthwise_int8"])
@pytest.mark.parametrize(("changed", "error", "message"), EVERY)
def test_products(operator, changed, error, message):
    out = nhwc(np.full((2, 8, 5, 3), 99, np.int8))
    with pytest.raises(error, match=message):
        product(operator, **changed, out=out)
    assert (cuda.asnumpy(out) == 99).all()


@pytest.mark.parametrize(("operator", "changed", "error", "message"), SOME)
def test_some_products(operator, changed, error, message):
    with pytest.raises(error, match=message):
        product(operator, **changed)


@pytest.mark.parametrize("operator", ["pointwise_int8", "conv2d_int8", "depthwise_int8"])
def test_the_calls_above_are_right_but_for_their_change(operator):
    assert cuda.asnumpy(product(operator)).shape == (2, 8, 5, 3)


def test_sums_that_could_overflow_are_refused():
    x, weight = ones(1, int8.DEPTH + 1, 1, 1), ones(1, int8.DEPTH + 1, 1, 1)
    with pytest.raises(ValueError, match="weight must have at most 65536 weights per output, got 65537"):
        kernels.pointwise_int8(x, weight, None, ones(1, dtype=np.float32))
    with pytest.raises(ValueError, match="x must have at most 8388608 pixels per image, got 8388609"):
        kernels.global_avg_pool_int8(ones(1, 1, 1, 128 * int8.DEPTH + 1), 1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: kernels.add_int8(x, x, (1.0, 1.0)), ValueError, "scales must be 3 finite numbers"),
        (lambda x: kernels.add_int8(x, x, (1.0, 1.0, 0.0), offset=127), ValueError, "offset must be 0, or 128"),
        (lambda x: kernels.add_int8(x, ones(2, 8, 5, 4), (1, 1, 0)), ValueError, r"b must have shape \(2, 8, 5, 3\)"),
        (lambda x: kernels.quantize(x, 1.0), TypeError, "x must be float32 or float16, got int8"),
        (lambda x: kernels.quantize(REAL, 0.0), ValueError, "scale must be a finite number above 0, got 0"),
        (lambda x: kernels.quantize(REAL, -1.0), ValueError, "scale must be a finite number above 0, got -1"),
        (lambda x: kernels.dequantize(x, float("nan")), ValueError, "scale must be a finite number above 0, got nan"),
        (lambda x: kernels.dequantize(x, 1e-60), ValueError, "scale must be a finite number above 0, got 1e-60"),
        (lambda x: kernels.dequantize(x, 1.0, 300), ValueError, "zero_point must be an integer .* got 300"),
        (lambda x: kernels.dequantize(x, 1.0, dtype=np.float64), TypeError, "dtype must be float32 or .* got float64"),
        (lambda x: kernels.global_avg_pool_int8(x, 0), ValueError, "multiplier must be a finite number above 0, got 0"),
        (lambda x: kernels.pool2d_int8(x, 2, kind="min"), ValueError, "kind must be 'max' or 'average', got 'min'"),
        (lambda x: kernels.pool2d_int8(x, 2, 2, 2), ValueError, r"padding must be below kernel_size \(2, 2\), got 2"),
        (lambda x: kernels.linear_int8(x, x, None, x), ValueError, r"x must have shape \(any, any\), got \(2, 8"),
    ],
)  # fmt: skip
def test_the_rest(call, error, message):
    with pytest.raises(error, match=message):
        call(ones(2, 8, 5, 3))


def test_the_fused_block(monkeypatch):
    def part(*shape):
        return Int8Convolution(ones(*shape), None, ones(shape[0], dtype=np.float32))

    x, expand, depthwise, project = ones(1, 8, 7, 7), part(32, 8, 1, 1), part(32, 1, 3, 3), part(8, 32, 1, 1)
    for parts, given, message in (
        ((expand, depthwise, project), {"stride": 3}, "stride must be 1 or 2, got 3"),
        ((None, depthwise, project), {}, r"depthwise.weight must have shape \(8, 1, 3, 3\) without expand"),
        ((expand, depthwise, part(8, 24, 1, 1)), {}, r"project.weight must have shape \(any, 32, 1, 1\)"),
        ((part(36, 8, 1, 1), part(36, 1, 3, 3), part(8, 36, 1, 1)), {}, "multiples of 8, got 8 > 36 > 8"),
        ((expand, depthwise, project), {"tile": Int8Tile(7, 7, images=64)}, "no tile of .* fits into"),
        ((expand, depthwise, project), {"residual": x}, "residual_scales must be 3 finite numbers"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            inverted_residual_int8(x, *parts, **given)
    monkeypatch.setattr(cuda, "shared_memory", lambda: 4096)
    with pytest.raises(ValueError, match=r"no tile of .* fits into 4096 bytes of shared memory"):
        inverted_residual_int8(x, expand, depthwise, project)
