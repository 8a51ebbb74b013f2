"""concat: the very elements, each in its place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import both_dtypes, draw, every_rung, on_device, poisoned
from tiers import examples

from common import cuda, kernels

# shape of the arrays but for dim, dim, their sizes there
CASES = [((2, 0, 7, 5), 1, (3, 8, 1)), ((1, 0, 7, 7), 1, (16, 17)), ((3, 0, 4, 4), 1, (24, 8, 40)),
         ((2, 7, 0, 3), 2, (1, 5)), ((2, 8, 3, 0), 3, (7, 33, 2)), ((3, 0, 1, 1), 1, (67, 13)), ((1, 0, 1, 1), 1, (1,)),
         ((5, 0), 1, (17, 33)), ((4, 0, 9), 1, (1, 7)),
         ((2, 3, 2, 0, 5), 3, (7, 1)), ((1, 0, 5, 3), 1, (4, 4, 4, 4, 4))]  # fmt: skip


def pieces(rng, shape, dim, sizes, dtype):
    return [draw(rng, *shape[:dim], size, *shape[dim + 1 :], dtype=dtype) for size in sizes]


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout) if array.ndim == 4 else on_device(array)


@every_rung("concat")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("shape", "dim", "sizes"), CASES, ids=str)
def test_concat(rng, variant, dtype, layout, shape, dim, sizes):
    arrays = pieces(rng, shape, dim, sizes, dtype)
    given, want = [laid(array, layout) for array in arrays], np.concatenate(arrays, dim)
    out = laid(poisoned(want.shape, dtype), layout)
    with cuda.guarded():
        assert kernels.concat(given, dim, out=out, variant=variant) is out
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    result = kernels.concat(tuple(given), dim, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(result), want)
    assert result.strides == out.strides


@every_rung("concat")
@both_dtypes
@settings(max_examples=examples(25))
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 4),
    dim=st.integers(1, 3),
    pieces_of=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=4),
    start=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_arrays_that_start_anywhere(variant, dtype, shape, dim, pieces_of, start, seed):
    """Each piece some elements behind the beginning of an array, and out too; nothing around out is written."""
    rng = np.random.default_rng(seed)
    arrays = pieces(rng, shape, dim, [size for size, _ in pieces_of], dtype)
    given = []
    for array, (_, offset) in zip(arrays, pieces_of, strict=True):
        whole = cuda.full(offset + array.size, np.nan, dtype)
        whole[offset:] = on_device(array.ravel())
        given.append(whole[offset:].reshape(array.shape))
    want = np.concatenate(arrays, dim)
    whole = cuda.full(start + want.size + 9, 42, dtype)
    out = whole[start:][: want.size].reshape(want.shape)
    out[...] = np.nan
    with cuda.guarded():
        kernels.concat(given, dim, out=out, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    assert (np.delete(cuda.asnumpy(whole), np.s_[start : start + want.size]) == 42).all()


@pytest.mark.skipif(cuda.backend() == "gpu", reason="a GPU may make another NaN of a NaN of float16")
@every_rung("concat")
def test_nan_infinity_and_subnormal_numbers_are_copied(variant):
    for dtype in (np.float32, np.float16):
        tiny = np.finfo(dtype).smallest_subnormal
        x = np.array([[np.nan, np.inf, -np.inf, -0.0, tiny, -tiny, np.finfo(dtype).max]], dtype)
        out = cuda.asnumpy(kernels.concat([on_device(x), on_device(x)], variant=variant))
        np.testing.assert_array_equal(out, np.concatenate([x, x], 1))
        assert np.signbit(out[0, 3])


def test_wrong_arguments():
    x = cuda.full((2, 3, 5, 7), 1)
    for arrays, got in ((x, "ndarray"), ([], "an empty list"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"arrays must be a list or tuple of at least one array, got {got}"):
            kernels.concat(arrays)
    with pytest.raises(TypeError, match=r"arrays\[1\] must be an array, got list"):
        kernels.concat([x, [1.0]])
    with pytest.raises(TypeError, match=r"arrays\[1\] must be float32 as the first argument is, got float16"):
        kernels.concat([x, x.astype(np.float16)])
    with pytest.raises(ValueError, match=r"arrays\[1\] must have shape \(2, any, 5, 7\), got \(2, 3, 7, 5\)"):
        kernels.concat([x, cuda.full((2, 3, 7, 5), 1)])
    for dim in (0, 4, -1, 1.0):
        with pytest.raises(ValueError, match=rf"dim must be a dimension after the batch .*\(2, 3, 5, 7\), got {dim}"):
            kernels.concat([x], dim)
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* got arrays\[0\] .* arrays\[1\] "):
        kernels.concat([x, cuda.to_layout(x, "NHWC")])
    with pytest.raises(ValueError, match=r"out must have shape \(2, 6, 5, 7\), got \(2, 3, 5, 7\)"):
        kernels.concat([x, x], out=x)
