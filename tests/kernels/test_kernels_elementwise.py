"""add, clamp and softmax against float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels
from common.kernels import vectors
from common.kernels.add import ladder

SIZES = [1, 7, 17, 33, 255, 257, 1009]
SHAPES = [(1,), (7,), (17, 33), (3, 5, 7, 11), (1, 1, 1, 257), (10007,), ()]


@every_rung("add")
@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(rng, variant, dtype, shape):
    a, b = draw(rng, *shape, dtype=dtype), draw(rng, *shape, dtype=dtype)
    out = kernels.add(on_device(a), on_device(b), out=poisoned(shape, dtype), variant=variant)
    agrees(out, f64(a) + f64(b))


def view(array, offset):
    """The same numbers, `offset` elements behind the beginning of an array of the backend."""
    whole = cuda.full(offset + array.size, np.nan, array.dtype)
    whole[offset:] = on_device(array.ravel())
    return whole[offset:].reshape(array.shape)


@every_rung("add")
@both_dtypes
@settings(max_examples=examples(10))
@given(
    size=st.integers(1, 3000),
    offsets=st.tuples(*[st.integers(0, 9)] * 3) | st.integers(0, 9).map(lambda offset: (offset,) * 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_add_of_views_that_start_anywhere(variant, dtype, size, offsets, seed):
    """No access of 16 bytes where an address is no multiple of 16, none past the end, no neighbour overwritten."""
    rng = np.random.default_rng(seed)
    a, b = draw(rng, size, dtype=dtype), draw(rng, size, dtype=dtype)
    whole = cuda.full(offsets[2] + size + 9, 42, dtype)
    out = whole[offsets[2] :][:size]
    out[...] = np.nan
    with cuda.guarded():
        kernels.add(view(a, offsets[0]), view(b, offsets[1]), out=out, variant=variant)
    agrees(out, f64(a) + f64(b))
    around = np.delete(cuda.asnumpy(whole), np.s_[offsets[2] : offsets[2] + size])
    assert around.size == offsets[2] + 9 and (around == 42).all()


@both_dtypes
@pytest.mark.parametrize("offset", range(10))
def test_accesses_are_as_wide_as_the_addresses_allow(dtype, offset):
    itemsize = np.dtype(dtype).itemsize
    array = view(np.zeros(64, dtype), offset)
    widest = max(n for n in (1, 2, 4, 8) if n * itemsize <= 16 and offset % n == 0)
    assert vectors.vector_width(array) == vectors.vector_width(view(np.zeros(64, dtype), 0), array) == widest
    assert vectors.vector_width(array, row=6) == min(widest, 2) and vectors.vector_width(array, row=7) == 1


@pytest.mark.skipif(cuda.backend() == "gpu", reason="a trace is the simulator's")
@pytest.mark.parametrize(("dtype", "vector"), [(np.float32, 4), (np.float16, 8), (np.float16, 1)])
def test_a_vector_of_elements_is_one_request(rng, dtype, vector):
    """1,001 numbers: vectors as far as they go, then one element a lane; the arrays' sectors, each once."""
    size = 1001
    a, b, out = on_device(draw(rng, size, dtype=dtype)), on_device(draw(rng, size, dtype=dtype)), poisoned(size, dtype)
    blocks = -(-size // (256 * vector))
    report = cuda.trace(ladder.kernel("vectorised", dtype, VECTOR=vector), (blocks,), (256,), (a, b, out, size))
    assert report.findings == ()
    loads, stores = report.global_loads, report.global_stores
    requests = -(-(size // vector) // 32) + (size % vector > 0)
    assert (loads.requests, stores.requests) == (2 * requests, requests)
    sectors = -(-size * np.dtype(dtype).itemsize // 32)
    assert loads.sectors <= 2 * (sectors + 1) and stores.sectors <= sectors + 1  # the tail may share one with a vector


@every_rung("add")
@both_dtypes
def test_a_grid_of_one_block_adds_everything(rng, variant, dtype):
    """But for the rungs whose grid depends on the number of elements (naive, unrolled), any grid does."""
    a, b = draw(rng, 5003, dtype=dtype), draw(rng, 5003, dtype=dtype)
    blocks = {"naive": 20, "unrolled": 5}.get(variant, 1)  # of 256 threads; an unrolled one adds 4 elements
    out = poisoned(5003, dtype)
    ladder.kernel(variant, dtype)((blocks,), (256,), (on_device(a), on_device(b), out, 5003))
    agrees(out, f64(a) + f64(b))


@every_rung("add")
def test_add_in_place(rng, variant):
    a, b = draw(rng, 3, 331), draw(rng, 3, 331)
    both = on_device(a)
    assert kernels.add(both, on_device(b), out=both, variant=variant) is both
    agrees(both, f64(a) + f64(b))


@every_rung("add")
def test_add_keeps_nan_and_infinity(variant):
    a = np.array([np.nan, 1, np.inf, -np.inf, np.inf, 3e38, -0.0], np.float32)
    b = np.array([1, np.nan, 1, 1, -np.inf, 3e38, -0.0], np.float32)
    out = cuda.asnumpy(kernels.add(on_device(a), on_device(b), variant=variant))
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(out, a + b)


NHWC_CALLS = {"add": lambda x, **rest: kernels.add(x, x, **rest), "clamp": kernels.relu6}


@pytest.mark.parametrize("operator", NHWC_CALLS)
@both_dtypes
@pytest.mark.parametrize("shape", [(2, 7, 5, 3), (1, 24, 9, 9), (3, 1, 7, 5), (3, 17, 1, 1)], ids=str)
def test_arrays_of_either_layout_but_all_of_the_same(rng, operator, dtype, shape):
    x = draw(rng, *shape, dtype=dtype)
    want = 2 * f64(x) if operator == "add" else f64(x).clamp(0, 6)
    for variant in kernels.variants(operator, dtype, "NHWC"):
        given = cuda.to_layout(on_device(x), "NHWC")
        result = NHWC_CALLS[operator](given, variant=variant)
        assert result.strides == given.strides or math.prod(shape[2:]) == 1 or shape[1] == 1
        agrees(result, want)
        out = cuda.to_layout(poisoned(shape, dtype), "NHWC")
        assert NHWC_CALLS[operator](given, out=out, variant=variant) is out
        agrees(out, want)


def test_arrays_of_two_layouts_are_refused(rng):
    x = on_device(draw(rng, 2, 7, 5, 3))
    turned = cuda.to_layout(x, "NHWC")
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* got a .* b "):
        kernels.add(x, turned)
    with pytest.raises(ValueError, match="out must be dense in NHWC"):
        kernels.add(turned, turned, out=cuda.full(x.shape, np.nan))
    with pytest.raises(ValueError, match="out must be C-contiguous"):
        kernels.relu6(x, out=turned)


@every_rung("clamp")
@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("clamp", "bounds"),
    [
        (kernels.relu, (0, np.inf)),
        (kernels.relu6, (0, 6)),
        (lambda x, **rest: kernels.clamp(x, -0.5, 1.25, **rest), (-0.5, 1.25)),
        (lambda x, **rest: kernels.clamp(x, -np.inf, 1, **rest), (-np.inf, 1)),
        (lambda x, **rest: kernels.clamp(x, 2, 2, **rest), (2, 2)),
    ],
    ids=["relu", "relu6", "both", "above", "constant"],
)
def test_clamp(rng, variant, dtype, shape, clamp, bounds):
    x = 5 * draw(rng, *shape, dtype=dtype)
    out = clamp(on_device(x), out=poisoned(shape, dtype), variant=variant)
    agrees(out, f64(x).clamp(*bounds))


@every_rung("clamp")
@both_dtypes
def test_clamp_keeps_nan_and_cuts_infinity(variant, dtype):
    x = np.array([np.nan, np.inf, -np.inf, -1, -0.0, 0, 3, 6, 7], dtype)
    out = cuda.asnumpy(kernels.relu6(on_device(x), out=poisoned(x.shape, dtype), variant=variant))
    np.testing.assert_array_equal(out, torch.nn.functional.relu6(torch.from_numpy(x)).numpy())


@every_rung("softmax")
@both_dtypes
@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize("rows", [(), (1,), (7,), (67,), (3, 5)], ids=str)
def test_softmax(rng, variant, dtype, rows, columns):
    x = 3 * draw(rng, *rows, columns, dtype=dtype)
    out = kernels.softmax(on_device(x), out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, f64(x).softmax(-1), k=columns)


@every_rung("softmax")
@both_dtypes
@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -3])
def test_softmax_along_any_dimension(rng, variant, dtype, dim):
    x = 3 * draw(rng, 2, 33, 7, 5, dtype=dtype)
    out = kernels.softmax(on_device(x), dim, out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, f64(x).softmax(dim), k=x.shape[dim])


@every_rung("softmax")
@both_dtypes
def test_softmax_of_large_scores_does_not_overflow(variant, dtype):
    x = np.array([[60000, 59999, -60000], [-60000, -60000, -60000]], np.float32).astype(dtype)
    out = kernels.softmax(on_device(x), out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, f64(x).softmax(-1), k=3)


@every_rung("softmax")
def test_softmax_keeps_nan_in_its_row(variant):
    x = np.array([[1, np.nan, 2], [1, 2, 3]], np.float32)
    out = cuda.asnumpy(kernels.softmax(on_device(x), out=poisoned(x.shape, x.dtype), variant=variant))
    assert np.isnan(out[0]).all() and np.isfinite(out[1]).all()
