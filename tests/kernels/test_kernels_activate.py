"""activate against float64: every function, of arrays of any shape, in place or not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples, seldom

from common import cuda, kernels
from common.kernels.activate import FUNCTIONS as EVERY

FUNCTIONS = {
    "sigmoid": torch.sigmoid,
    "hardsigmoid": lambda x: (x / 6 + 0.5).clamp(0, 1),
    "hardswish": lambda x: x * (x / 6 + 0.5).clamp(0, 1),
    "tanh": torch.tanh,
    "erf": torch.erf,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "elu": torch.nn.functional.elu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "sqrt": torch.sqrt,
}


def taken(function, x):
    """The numbers for which a function is defined."""
    return np.abs(x) if function == "sqrt" else x


SHAPES = [(1,), (7,), (17, 33), (3, 5, 7, 11), (1, 1, 1, 257), (10007,), ()]
functions = pytest.mark.parametrize("function", FUNCTIONS)


@functions
@every_rung("activate")
@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activate(rng, function, variant, dtype, shape):
    x = taken(function, 4 * draw(rng, *shape)).astype(dtype)
    out = kernels.activate(on_device(x), function, out=poisoned(shape, dtype), variant=variant)
    agrees(out, FUNCTIONS[function](f64(x)), k=4, floor=0.1)


def test_every_function_is_tested():
    assert tuple(FUNCTIONS) == EVERY


F = torch.nn.functional
OPERATORS = {
    "sigmoid": (kernels.sigmoid, (), torch.sigmoid),
    "hardsigmoid": (kernels.hardsigmoid, (), F.hardsigmoid),
    "hardsigmoid-slope": (kernels.hardsigmoid, (0.2, 0.25), lambda x: (0.2 * x + 0.25).clamp(0, 1)),
    "hardswish": (kernels.hardswish, (), F.hardswish),
    "tanh": (kernels.tanh, (), torch.tanh),
    "leaky_relu": (kernels.leaky_relu, (), F.leaky_relu),
    "leaky_relu-slope": (kernels.leaky_relu, (-1.5,), lambda x: F.leaky_relu(x, -1.5)),
    "elu": (kernels.elu, (), F.elu),
    "elu-alpha": (kernels.elu, (0.3,), lambda x: F.elu(x, 0.3)),
    "gelu": (kernels.gelu, (), F.gelu),
    "gelu-tanh": (kernels.gelu, ("tanh",), lambda x: F.gelu(x, approximate="tanh")),
}


@pytest.mark.parametrize("name", OPERATORS)
@every_rung("activate")
@both_dtypes
def test_functions_by_name(rng, name, variant, dtype):
    function, arguments, reference = OPERATORS[name]
    x = 4 * draw(rng, 3, 331, dtype=dtype)
    out = function(on_device(x), *arguments, out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, reference(f64(x)), k=4)


@pytest.mark.parametrize("function", ["elu", "gelu", "tanh", "erf"])
@every_rung("activate")
def test_small_numbers_keep_their_digits(function, variant):
    x = np.array([1e-6, -1e-6, 3e-4, -3e-4, -1e-30], np.float32)
    out = kernels.activate(on_device(x), function, variant=variant)
    np.testing.assert_allclose(cuda.asnumpy(out), FUNCTIONS[function](f64(x)).numpy(), rtol=1e-6)


@every_rung("activate")
def test_gelu_keeps_its_digits_where_one_plus_erf_cancels(variant):
    x = np.linspace(-12, -2, 57, dtype=np.float32)
    want = 0.5 * f64(x) * torch.special.erfc(-f64(x) * 0.5**0.5)
    out = kernels.gelu(on_device(x), variant=variant)
    np.testing.assert_allclose(cuda.asnumpy(out), want.numpy(), rtol=5e-5)  # erfc multiplies the rounding of x/√2 by x²


@seldom(6)
@functions
@every_rung("activate")
@both_dtypes
@settings(max_examples=examples(10))
@given(size=st.integers(1, 3000), start=st.integers(0, 9), to=st.integers(0, 9), seed=st.integers(0, 2**32 - 1))
def test_arrays_that_start_anywhere(function, variant, dtype, size, start, to, seed):
    """Nothing past the end is read, no neighbour is overwritten; in place too."""
    x = taken(function, 4 * draw(np.random.default_rng(seed), size, dtype=dtype))
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
    x = taken(function, 4 * draw(rng, 2, 7, 5, 3, dtype=dtype))
    turned = cuda.to_layout(on_device(x), "NHWC")
    result = kernels.activate(turned, function, variant=variant)
    assert result.strides == turned.strides
    agrees(result, FUNCTIONS[function](f64(x)), k=4)
    with pytest.raises(ValueError, match="out must be dense in NHWC"):
        kernels.activate(turned, function, out=poisoned(x.shape, dtype), variant=variant)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: kernels.activate(x, "mish"), r"function must be one of 'sigmoid', .*, got 'mish'"),
        (lambda x: kernels.hardsigmoid(x, float("nan")), "alpha must be a finite number, got nan"),
        (lambda x: kernels.hardsigmoid(x, beta="1"), "beta must be a finite number, got '1'"),
        (lambda x: kernels.leaky_relu(x, float("inf")), "alpha must be a finite number, got inf"),
        (lambda x: kernels.gelu(x, "erf"), "approximate must be 'none' or 'tanh', got 'erf'"),
        (lambda x: kernels.sigmoid(x, out=x[:3]), r"out must have shape \(7\), got \(3,\)"),
        (lambda x: kernels.sigmoid(x, variant="fast"), "activate: variant must be one of .*naive.*, got 'fast'"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(cuda.full(7, 1))
