"""multiply: equal to one rounding of the exact product, whatever is broadcast."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import both_dtypes, draw, every_rung, on_device, poisoned
from tiers import examples

from common import cuda, kernels

# what is multiplied: squeeze and excite, equal shapes, one pixel, one channel, both broadcast, other ranks
SHAPES = [((2, 24, 7, 7), (2, 24, 1, 1)), ((1, 17, 33, 5), (1, 17, 1, 1)), ((3, 16, 4, 4), (3, 16, 1, 1)),
          ((2, 7, 5, 3), (2, 7, 5, 3)), ((2, 1, 5, 3), (2, 7, 5, 3)), ((2, 7, 1, 1), (2, 1, 5, 3)),
          ((1, 7, 5, 3), (2, 7, 1, 1)), ((2, 7, 1, 3), (2, 1, 5, 1)), ((1, 1, 1, 1), (1, 1, 1, 1)),
          ((3, 67, 1, 13), (3, 67, 1, 1)), ((17,), (17,)), ((5, 33), (5, 1)), ((5, 33), (1, 33)),
          ((3, 1, 7), (3, 5, 1)), ((1009,), (1,)), ((), ()), ((2, 3, 5, 7, 3), (2, 3, 1, 1, 3)),
          ((2, 3, 2, 3, 2, 3), (2, 3, 2, 3, 2, 3))]  # fmt: skip
pairs = pytest.mark.parametrize(("first", "second"), SHAPES, ids=str)


def product(a, b):
    """Exact but for one rounding: of two halves float32 holds the product, of two floats float64."""
    return (a.astype(np.float64) * b.astype(np.float64)).astype(a.dtype)


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout) if array.ndim == 4 else on_device(array)


@every_rung("multiply")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pairs
def test_multiply(rng, variant, dtype, layout, first, second):
    a, b = draw(rng, *first, dtype=dtype), draw(rng, *second, dtype=dtype)
    want = product(a, b)
    for one, other in ((a, b), (b, a)):
        given = laid(one, layout), laid(other, layout)
        out = laid(poisoned(want.shape, dtype), layout)
        with cuda.guarded():
            assert kernels.multiply(*given, out=out, variant=variant) is out
        np.testing.assert_array_equal(cuda.asnumpy(out), want)
        np.testing.assert_array_equal(cuda.asnumpy(kernels.multiply(*given, variant=variant)), want)


@every_rung("multiply")
@both_dtypes
@settings(max_examples=examples(25))
@given(
    shape=st.lists(st.integers(1, 19), min_size=4, max_size=4).map(tuple),
    ones=st.tuples(*[st.sampled_from("ab=")] * 4),
    layout=st.sampled_from(cuda.LAYOUTS),
    offsets=st.tuples(*[st.integers(0, 9)] * 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_broadcasting_from_any_address(variant, dtype, shape, ones, layout, offsets, seed):
    rng = np.random.default_rng(seed)
    sizes = [tuple(1 if one == name else size for size, one in zip(shape, ones, strict=True)) for name in "ab"]
    a, b = (draw(rng, *size, dtype=dtype) for size in sizes)
    given = [at(array, layout, offset) for array, offset in zip((a, b), offsets, strict=True)]
    want = product(a, b)
    out = cuda.to_layout(poisoned(want.shape, dtype), layout)
    with cuda.guarded():
        kernels.multiply(*given, out=out, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(out), want)


def at(array, layout, offset):
    """The array in that layout, `offset` elements behind the beginning of another."""
    stored = array.transpose(0, 2, 3, 1) if layout == "NHWC" else array
    whole = cuda.full(offset + array.size, np.nan, array.dtype)
    whole[offset:] = on_device(np.ascontiguousarray(stored).ravel())
    view = whole[offset:].reshape(stored.shape)
    return view.transpose(0, 3, 1, 2) if layout == "NHWC" else view


@every_rung("multiply")
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
def test_the_result_lies_as_the_larger_array_does(rng, variant, layout):
    x, scale = laid(draw(rng, 2, 7, 5, 3), layout), on_device(draw(rng, 2, 7, 1, 1))
    for both in ((x, scale), (scale, x), (x, x)):
        assert kernels.multiply(*both, variant=variant).strides == x.strides


@every_rung("multiply")
@both_dtypes
def test_in_place(rng, variant, dtype):
    x, scale = draw(rng, 2, 7, 5, 4, dtype=dtype), draw(rng, 2, 7, 1, 1, dtype=dtype)
    both = on_device(x)
    assert kernels.multiply(both, on_device(scale), out=both, variant=variant) is both
    np.testing.assert_array_equal(cuda.asnumpy(both), product(x, scale))
    assert kernels.multiply(both, both, out=both, variant=variant) is both
    np.testing.assert_array_equal(cuda.asnumpy(both), product(product(x, scale), product(x, scale)))


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3, 5, 7), (2, 3, 5), r"b must have shape \(2, 3, 5, 7\), but for .* size 1 .*, got \(2, 3, 5\)"),
        ((2, 3, 5, 7), (2, 3, 7, 5), r"b must have shape .*, got \(2, 3, 7, 5\)"),
        ((2, 2, 2, 2, 2), (2, 1, 2, 1, 2), "a and b must alternate in what is broadcast less often, got"),
    ],
)
def test_shapes_that_do_not_fit(a, b, message):
    with pytest.raises(ValueError, match=message):
        kernels.multiply(cuda.full(a, 1), cuda.full(b, 1))


def test_other_wrong_arguments():
    x = cuda.full((2, 3, 5, 7), 1)
    with pytest.raises(TypeError, match="b must be float32 as the first argument is, got float16"):
        kernels.multiply(x, cuda.full((2, 3, 1, 1), 1, np.float16))
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* got a .* b "):
        kernels.multiply(x, cuda.to_layout(x, "NHWC"))
    with pytest.raises(ValueError, match=r"out must have shape \(2, 3, 5, 7\), got \(2, 3, 1, 1\)"):
        kernels.multiply(x, x, out=cuda.full((2, 3, 1, 1), 1))
