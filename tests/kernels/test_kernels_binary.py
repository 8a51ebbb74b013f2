"""binary: equal to one rounding of the exact sum, difference, quotient, maximum or minimum, whatever is broadcast."""

import numpy as np
import pytest
from kernel_checks import both_dtypes, draw, every_rung, on_device, poisoned

from common import cuda, kernels
from common.kernels.binary import FUNCTIONS

# squeeze and excite, equal shapes, one pixel, one channel, both broadcast, other ranks
SHAPES = [((2, 24, 7, 7), (2, 24, 1, 1)), ((1, 17, 33, 5), (1, 17, 1, 1)), ((2, 7, 5, 3), (2, 7, 5, 3)),
          ((2, 7, 1, 1), (2, 1, 5, 3)), ((1, 7, 5, 3), (2, 7, 1, 1)), ((2, 7, 1, 3), (2, 1, 5, 1)),
          ((1, 1, 1, 1), (1, 1, 1, 1)), ((17,), (17,)), ((5, 33), (5, 1)), ((1009,), (1,)), ((), ()),
          ((2, 3, 5, 7, 3), (2, 3, 1, 1, 3))]  # fmt: skip
functions = pytest.mark.parametrize("function", FUNCTIONS)


def exact(function, a, b):
    """In float64, then rounded once: of halves float32 holds enough of a quotient for that, of floats float64."""
    return getattr(np, function)(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout) if array.ndim == 4 else on_device(array)


@functions
@every_rung("binary")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("first", "second"), SHAPES, ids=str)
def test_binary(rng, function, variant, dtype, layout, first, second):
    a, b = draw(rng, *first, dtype=dtype), draw(rng, *second, dtype=dtype)
    for one, other in ((a, b), (b, a)):
        want = exact(function, one, other)
        given, out = (laid(one, layout), laid(other, layout)), laid(poisoned(want.shape, dtype), layout)
        with cuda.guarded():
            assert kernels.binary(*given, function, out=out, variant=variant) is out
        np.testing.assert_array_equal(cuda.asnumpy(out), want)
        same = kernels.binary(*given, function, variant=variant)
        np.testing.assert_array_equal(cuda.asnumpy(same), want)


@pytest.mark.parametrize("name", ["subtract", "divide", "maximum", "minimum"])
def test_functions_by_name(rng, name):
    a, b = draw(rng, 2, 7, 5, 3), draw(rng, 2, 7, 1, 1)
    out = poisoned(a.shape, a.dtype)
    assert getattr(kernels, name)(on_device(a), on_device(b), out=out, variant="naive") is out
    np.testing.assert_array_equal(cuda.asnumpy(out), exact(name, a, b))


@functions
@every_rung("binary")
@both_dtypes
def test_in_place(rng, function, variant, dtype):
    x, scale = draw(rng, 2, 7, 5, 4, dtype=dtype), draw(rng, 2, 7, 1, 1, dtype=dtype)
    for first in (True, False):  # out is a, out is b
        both = on_device(x)
        arrays = (both, on_device(scale)) if first else (on_device(scale), both)
        assert kernels.binary(*arrays, function, out=both, variant=variant) is both
        np.testing.assert_array_equal(cuda.asnumpy(both), exact(function, *((x, scale) if first else (scale, x))))


@functions
@every_rung("binary")
@both_dtypes
def test_nan_infinity_and_zero(function, variant, dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0], dtype)
    a, b = (one.ravel() for one in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = exact(function, a, b)
    result = kernels.binary(on_device(a), on_device(b), function, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(result), want)


def test_wrong_arguments():
    x = cuda.full((2, 3, 5, 7), 1)
    with pytest.raises(ValueError, match=r"function must be one of 'add', .*, got 'power'"):
        kernels.binary(x, x, "power")
    with pytest.raises(ValueError, match=r"b must have shape \(2, 3, 5, 7\), but for .* size 1 .*, got \(2, 3, 5\)"):
        kernels.subtract(x, cuda.full((2, 3, 5), 1))
    with pytest.raises(ValueError, match="a and b must alternate in what is broadcast less often, got"):
        kernels.maximum(cuda.full((2, 2, 2, 2, 2), 1), cuda.full((2, 1, 2, 1, 2), 1))
    with pytest.raises(TypeError, match="b must be float32 as the first argument is, got float16"):
        kernels.divide(x, cuda.full((2, 3, 1, 1), 1, np.float16))
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* got a .* b "):
        kernels.minimum(x, cuda.to_layout(x, "NHWC"))
    with pytest.raises(ValueError, match=r"out must have shape \(2, 3, 5, 7\), got \(2, 3, 1, 1\)"):
        kernels.subtract(x, x, out=cuda.full((2, 3, 1, 1), 1))
