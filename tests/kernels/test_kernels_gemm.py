"""gemm and linear against float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned

from common import cuda, kernels

SHAPES = [  # M, N, K
    (1, 1, 1), (7, 1, 17), (1, 33, 7), (17, 7, 33), (33, 31, 1), (67, 129, 37), (5, 1000, 128), (1, 10, 1280),
]  # fmt: skip
ACTIVATIONS = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), (-0.5, 1.5): (-0.5, 1.5)}


def check_gemm(rng, dtype, m, n, k, transpose_b, with_bias, activation, variant=None):
    a = draw(rng, m, k, dtype=dtype)
    b = draw(rng, *((n, k) if transpose_b else (k, n)), dtype=dtype)
    bias = draw(rng, n, dtype=dtype) if with_bias else None
    out = kernels.gemm(
        on_device(a), on_device(b), on_device(bias),
        transpose_b=transpose_b, activation=activation, out=poisoned((m, n), dtype), variant=variant,
    )  # fmt: skip
    reference = f64(a) @ (f64(b).T if transpose_b else f64(b))
    if with_bias:
        reference += f64(bias)
    agrees(out, reference.clamp(*ACTIVATIONS[activation]), k, floor=0.1 * k**0.5)


@every_rung("gemm")
@both_dtypes
@pytest.mark.parametrize("transpose_b", [False, True], ids=["b", "bT"])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_gemm(rng, variant, dtype, m, n, k, transpose_b):
    check_gemm(rng, dtype, m, n, k, transpose_b, with_bias=True, activation=None, variant=variant)


@every_rung("gemm")
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_gemm_bias_and_activation(rng, variant, with_bias, activation):
    check_gemm(rng, np.float32, 17, 33, 7, False, with_bias, activation, variant)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans(),
    st.sampled_from(list(ACTIVATIONS)), st.sampled_from([np.float32, np.float16]),
    st.sampled_from(kernels.variants("gemm")), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_gemm_of_any_shape(m, n, k, transpose_b, with_bias, activation, dtype, variant, seed):
    check_gemm(np.random.default_rng(seed), dtype, m, n, k, transpose_b, with_bias, activation, variant)


@every_rung("gemm")
@both_dtypes
@pytest.mark.parametrize("with_bias", [False, True], ids=["", "bias"])
def test_linear(rng, variant, dtype, with_bias):
    x, weight = draw(rng, 3, 37, dtype=dtype), draw(rng, 11, 37, dtype=dtype)
    bias = draw(rng, 11, dtype=dtype) if with_bias else None
    out = kernels.linear(
        on_device(x), on_device(weight), on_device(bias), out=poisoned((3, 11), dtype), variant=variant
    )
    agrees(out, f64(x) @ f64(weight).T + (f64(bias) if with_bias else 0), k=37)


@every_rung("gemm")
def test_gemm_sums_float16_in_float32(variant):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    ones = np.ones((1, 4001), np.float16)
    out = kernels.gemm(
        on_device(ones), on_device(ones), transpose_b=True, out=poisoned((1, 1), np.float16), variant=variant
    )
    assert abs(cuda.asnumpy(out).item() - 4001) <= 1  # 4,001 is not a float16


@every_rung("gemm")
def test_gemm_keeps_nan_through_its_activation(variant):
    a, b = np.array([[1, np.nan], [1, 2]], np.float32), np.ones((2, 3), np.float32)
    out = kernels.gemm(
        on_device(a), on_device(b), activation="relu6", out=poisoned((2, 3), np.float32), variant=variant
    )
    np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), [[True] * 3, [False] * 3])
