"""activate against float64: sigmoid, hardsigmoid and hardswish of arrays of any shape, in place or not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels

FUNCTIONS = {
    "sigmoid": torch.sigmoid,
    "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1),
    "hardswish": lambda x: x * (x / 6 + 0.5).clamp(0, 1),
}
SHAPES = [(1,), (7,), (17, 33), (3, 5, 7, 11), (1, 1, 1, 257), (10007,), ()]
functions = pytest.mark.parametrize("function", FUNCTIONS)


@functions
@every_rung("activate")
@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activate(rng, function, variant, dtype, shape):
    x = (4 * draw(rng, *shape)).astype(dtype)
    out = kernels.activate(on_device(x), function, out=poisoned(shape, dtype), variant=variant)
    agrees(out, FUNCTIONS[function](f64(x)), k=4, floor=0.1)
    agrees(getattr(kernels, function)(on_device(x), variant=variant), FUNCTIONS[function](f64(x)), k=4, floor=0.1)


@every_rung("activate")
@both_dtypes
def test_slope_and_middle_of_hardsigmoid(rng, variant, dtype):
    x = 4 * draw(rng, 3, 331, dtype=dtype)
    out = kernels.hardsigmoid(on_device(x), 0.2, 0.25, out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, (0.2 * f64(x) + 0.25).clamp(0, 1), k=4)


@functions
@every_rung("activate")
@both_dtypes
@settings(max_examples=examples(10))
@given(size=st.integers(1, 3000), start=st.integers(0, 9), to=st.integers(0, 9), seed=st.integers(0, 2**32 - 1))
def test_arrays_that_start_anywhere(function, variant, dtype, size, start, to, seed):
    """Nothing past the end is read, no neighbour is overwritten; in place too."""
    x = 4 * draw(np.random.default_rng(seed), size, dtype=dtype)
    source, target = cuda.full(start + size, np.nan, dtype), cuda.full(to + size + 9, 42, dtype)
    source[start:] = on_device(x)
    given, out = source[start:], target[to:][:size]
    with cuda.guarded():
        kernels.activate(given, function, out=out, variant=variant)
    agrees(out, FUNCTIONS[function](f64(x)), k=4, floor=0.1)
    assert (np.delete(cuda.asnumpy(target), np.s_[to : to + size]) == 42).all()
    assert kernels.activate(given, function, out=given, variant=variant) is given
    agrees(given, FUNCTIONS[function](f64(x)), k=4, floor=0.1)


@functions
@every_rung("activate")
@both_dtypes
def test_nan_and_infinity(function, variant, dtype):
    x = np.array([np.nan, np.inf, 60000, 100, 3, -0.0, -3, -100, -60000], dtype)
    out = cuda.asnumpy(kernels.activate(on_device(x), function, out=poisoned(x.shape, dtype), variant=variant))
    want = FUNCTIONS[function](f64(x)).numpy()
    assert np.isnan(out[0]) and (out[1:4] == want[1:4].astype(dtype)).all()
    np.testing.assert_allclose(out, want, rtol=2e-3, atol=1e-6)


@functions
@every_rung("activate")
@both_dtypes
def test_nhwc_stays_nhwc(rng, function, variant, dtype):
    x = 4 * draw(rng, 2, 7, 5, 3, dtype=dtype)
    turned = cuda.to_layout(on_device(x), "NHWC")
    result = kernels.activate(turned, function, variant=variant)
    assert result.strides == turned.strides
    agrees(result, FUNCTIONS[function](f64(x)), k=4)
    with pytest.raises(ValueError, match="out must be dense in NHWC"):
        kernels.activate(turned, function, out=poisoned(x.shape, dtype), variant=variant)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: kernels.activate(x, "gelu"), r"function must be one of 'sigmoid', .*, got 'gelu'"),
        (lambda x: kernels.hardsigmoid(x, float("nan")), "alpha must be a finite number, got nan"),
        (lambda x: kernels.hardsigmoid(x, beta="1"), "beta must be a finite number, got '1'"),
        (lambda x: kernels.sigmoid(x, out=x[:3]), r"out must have shape \(7\), got \(3,\)"),
        (lambda x: kernels.sigmoid(x, variant="fast"), "activate: variant must be one of .*naive.*, got 'fast'"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(cuda.full(7, 1))
