"""pad: the very elements, with one value around them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import both_dtypes, draw, every_rung, on_device, poisoned
from tiers import examples

from common import cuda, kernels

SHAPES = [(1, 1, 1, 1), (2, 7, 5, 3), (1, 17, 33, 7), (3, 1, 7, 13), (2, 24, 1, 1)]
PADDINGS = [((0, 0), (0, 0)), ((1, 2), (3, 4)), ((0, 1), (0, 0)), ((0, 0), (5, 0)), ((7, 0), (0, 17))]
sides = st.tuples(st.integers(0, 6), st.integers(0, 6))


def check(x, padding, value, layout, variant):
    want = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=value)
    given, out = cuda.to_layout(on_device(x), layout), cuda.to_layout(poisoned(want.shape, x.dtype), layout)
    with cuda.guarded():
        assert kernels.pad(given, padding, value, out=out, variant=variant) is out
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    np.testing.assert_array_equal(cuda.asnumpy(kernels.pad(given, padding, value, variant=variant)), want)


@every_rung("pad")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pad(rng, variant, dtype, layout, padding, shape):
    check(draw(rng, *shape, dtype=dtype), padding, 0.5, layout, variant)


@every_rung("pad")
@both_dtypes
@settings(max_examples=examples(25))
@given(
    shape=st.tuples(*[st.integers(1, 12)] * 4),
    padding=st.tuples(sides, sides),
    value=st.sampled_from([0.0, -1.5, float("inf"), float("-inf"), float("nan")]),
    layout=st.sampled_from(cuda.LAYOUTS),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_and_padding(variant, dtype, shape, padding, value, layout, seed):
    check(draw(np.random.default_rng(seed), *shape, dtype=dtype), padding, value, layout, variant)


def test_padding_as_an_int_or_a_pair(rng):
    x = draw(rng, 2, 3, 5, 7)
    for padding, sides_of in ((2, (2, 2, 2, 2)), ((1, 3), (3, 3, 1, 1))):
        want = torch.nn.functional.pad(torch.from_numpy(x), sides_of)
        np.testing.assert_array_equal(cuda.asnumpy(kernels.pad(on_device(x), padding)), want)


def test_wrong_arguments():
    x = cuda.full((2, 3, 5, 7), 1)
    with pytest.raises(ValueError, match="padding must be an integer of at least 0 or a pair of them, got"):
        kernels.pad(x, ((0, -1), (0, 0)))
    with pytest.raises(TypeError, match="value must be a number, got str"):
        kernels.pad(x, 1, "0")
    with pytest.raises(ValueError, match=r"x must have shape \(any, any, any, any\), got \(3, 5, 7\)"):
        kernels.pad(x[0], 1)
    with pytest.raises(ValueError, match=r"out must have shape \(2, 3, 7, 9\), got \(2, 3, 5, 7\)"):
        kernels.pad(x, 1, out=x)
    with pytest.raises(ValueError, match="all arrays must be NCHW, or all NHWC"):
        kernels.pad(x, 1, out=cuda.to_layout(cuda.full((2, 3, 7, 9), 1), "NHWC"))
