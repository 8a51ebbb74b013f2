"""add_int8, the pools, quantize and dequantize: every rung equals the NumPy model, bit for bit."""

import numpy as np
import pytest
from int8_checks import calls, drawn, nhwc, on_device, poisoned, same
from kernel_checks import every_rung, every_rung_and_dtype
from tiers import ALL

from common import cuda, kernels
from common.kernels import int8
from common.kernels.traced import trace_call


@pytest.mark.parametrize("shape", [(1,), (3,), (7, 5), (2, 3, 17, 11), (1, 33, 64)])
@every_rung("add_int8")
def test_add(rng, shape, variant):
    a, b = drawn(rng, *shape), drawn(rng, *shape)
    for scales in (int8.residual_scales((0.3, -4), (0.2, 90), (0.4, 5)), (0.5, 0.5, 0.0), (1e9, -1e9, 3.0)):
        got = kernels.add_int8(cuda.asarray(a), cuda.asarray(b), scales, bounds=(-100, 127), variant=variant)
        same(got, int8.add(a, b, scales, -100, 127))


def test_add_has_every_pair_and_rounds_ties_to_even():
    a, b = (v.astype(np.int8) for v in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    for scales, offset in (((0.5, 0.25, 0.0), 0), ((0.625, 0.37, 1.5), 0), ((0.7137, 0.391, 3.7), 128)):
        want = int8.add(a, b, scales, offset=offset)
        for variant in kernels.variants("add_int8"):
            same(kernels.add_int8(cuda.asarray(a), cuda.asarray(b), scales, offset=offset, variant=variant), want)
    exact = [[round(x / 2 + y / 4) for x in range(-128, 128)] for y in range(-128, 128)]  # ties to even
    same(kernels.add_int8(cuda.asarray(a), cuda.asarray(b), (0.5, 0.25, 0.0)), np.array(exact, np.int8))


def test_add_of_a_uint8_model_is_the_sum_of_the_numbers_in_the_file(rng):
    a, b = rng.integers(0, 256, (2, 999)).astype(np.uint8)
    scales = tuple(map(np.float32, (0.7137, 0.391, -3.7)))
    total = int8.fma(a.astype(np.int16), scales[0], int8.fma(b.astype(np.int16), scales[1], scales[2]))
    want = np.clip(np.rint(total), 0, 255).astype(np.uint8)
    lower = ((one.astype(np.int16) - 128).astype(np.int8) for one in (a, b))
    got = kernels.add_int8(*map(cuda.asarray, lower), tuple(map(float, scales)), offset=128)
    np.testing.assert_array_equal(cuda.asnumpy(got).astype(np.int16) + 128, want)


def test_add_in_place(rng):
    a, b = drawn(rng, 33, 5), drawn(rng, 33, 5)
    there = cuda.asarray(a.copy())
    same(kernels.add_int8(there, cuda.asarray(b), (1.0, 1.0, 0.0), out=there), int8.add(a, b, (1.0, 1.0, 0.0)))
    with pytest.raises(ValueError, match="out and b share memory in part"):
        kernels.add_int8(there.reshape(-1)[4:], there.reshape(-1)[:-4], (1.0, 1.0, 0.0), out=there.reshape(-1)[4:])


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (3, 36, 7, 7), (2, 12, 17, 13), (1, 132, 33, 31)])
@every_rung("global_avg_pool_int8")
def test_global_avg_pool(rng, shape, variant):
    x, out = drawn(rng, *shape), poisoned(*shape[:2], 1, 1)
    given = {"input_zero_point": -31, "zero_point": 12}
    kernels.global_avg_pool_int8(nhwc(x), 3.7, **given, out=out, variant=variant)
    same(out, int8.global_avg_pool(x, 3.7, **given))


def test_global_avg_pool_of_a_few_channels_and_of_a_constant(rng):
    x = drawn(rng, 2, 7, 5, 5)
    same(kernels.global_avg_pool_int8(nhwc(x), 1.5), int8.global_avg_pool(x, 1.5))
    with pytest.raises(ValueError, match="'words' takes rows of whole words of 4 channels, got 7"):
        kernels.global_avg_pool_int8(nhwc(x), 1.5, variant="words")
    for value in (-128, 127):
        constant = np.full((1, 8, 33, 47), value, np.int8)
        same(kernels.global_avg_pool_int8(nhwc(constant), 1.0), constant[:, :, :1, :1])


POOLS = [
    ((2, 3, 9, 7), (3, 3), 2, 1, 1, False), ((1, 5, 8, 9), (2, 3), None, 0, 1, True),
    ((1, 2, 7, 7), (3, 2), 1, (1, 1), 2, False), ((2, 4, 10, 11), (3, 3), 2, ((0, 1), (1, 0)), 1, True),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "ceil_mode"), POOLS)
def test_pools(rng, shape, kernel, stride, padding, dilation, ceil_mode):
    x = drawn(rng, *shape)
    want = int8.max_pool2d(x, kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    out = poisoned(*want.shape)
    same(kernels.max_pool2d_int8(nhwc(x), kernel, stride, padding, dilation, ceil_mode, out=out), want)
    for include in (False, True):
        given = {"ceil_mode": ceil_mode, "count_include_pad": include, "input_zero_point": -40, "zero_point": 7}
        want = int8.avg_pool2d(x, kernel, 1.9, stride=stride, padding=padding, **given)
        out = poisoned(*want.shape)
        same(kernels.avg_pool2d_int8(nhwc(x), kernel, 1.9, stride, padding, **given, out=out), want)


def test_the_models_pools_are_pytorchs(rng):
    """On real numbers: what the int8 output stands for is within half a step of the mean, and is the maximum."""
    import torch

    for shape, kernel, stride, padding, _, ceil_mode in POOLS[:3]:
        x = drawn(rng, *shape)
        real = torch.from_numpy(x.astype(np.float64))
        pads = int(np.max(padding)) if isinstance(padding, int) else padding
        want = torch.nn.functional.max_pool2d(real, kernel, stride, pads, 1, ceil_mode)
        got = int8.max_pool2d(x, kernel, stride=stride, padding=padding, ceil_mode=ceil_mode)
        np.testing.assert_array_equal(got, want.numpy())
        for include in (False, True):
            want = torch.nn.functional.avg_pool2d(real - 5, kernel, stride, pads, ceil_mode, include)
            given = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode, "count_include_pad": include}
            got = int8.avg_pool2d(x, kernel, 0.5, input_zero_point=5, **given)
            assert np.abs(got - want.numpy() / 2).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 5, 7), (1, 131)])
@every_rung_and_dtype("quantize")
def test_quantize(rng, shape, variant, dtype):
    x = (rng.standard_normal(shape) * 4).astype(dtype)
    for zero_point in (0, -128, 77):
        got = kernels.quantize(cuda.asarray(x), 0.031, zero_point, variant=variant)
        same(got, int8.quantize(x, 0.031, zero_point))


@every_rung_and_dtype("quantize")
def test_quantize_of_ties_and_of_what_is_no_number(variant, dtype):
    x = np.concatenate([np.arange(-140, 140) / 4, [np.inf, -np.inf, np.nan, 6e4, -6e4, 1e-7]]).astype(dtype)
    got = kernels.quantize(cuda.asarray(x), 0.5, 1, variant=variant)
    same(got, int8.quantize(x, 0.5, 1))
    want = [max(-128, min(127, round(v / 2) + 1)) for v in range(-140, 140)]
    np.testing.assert_array_equal(cuda.asnumpy(got)[:280], want)
    np.testing.assert_array_equal(cuda.asnumpy(got)[280:], [127, -128, -128, 127, -128, 1])


@every_rung_and_dtype("dequantize")
def test_dequantize(variant, dtype):
    q = np.arange(-128, 129)[:255].astype(np.int8)
    for part in (q, q[:3]):
        got = kernels.dequantize(cuda.asarray(part), 0.0371, -5, dtype=dtype, variant=variant)
        assert got.dtype == dtype
        np.testing.assert_array_equal(cuda.asnumpy(got), int8.dequantize(part, 0.0371, -5).astype(dtype))
        same(kernels.quantize(got, 0.0371, -5), part)  # and back


@pytest.mark.skipif(cuda.backend() == "gpu", reason="the simulator's sanitizer; a GPU's is compute-sanitizer")
@pytest.mark.parametrize("operator", kernels.INT8_OPERATORS)
def test_no_rung_has_findings(rng, operator):
    """Neither out of bounds nor racing nor reading what nobody wrote."""
    call = calls(rng)[operator]
    arrays = [on_device(array) for array in call.arrays]
    for variant in kernels.variants(operator)[0 if ALL else -1 :]:
        reports = trace_call(lambda v=variant: call.function(*arrays, variant=v), None)
        assert len(reports) == 1 and [f for report in reports for f in report.findings] == []
