"""permute: the very elements in another order, from arrays of any order in memory."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import both_dtypes, draw, on_device, poisoned
from tiers import ALL, examples

from common import cuda, kernels
from common.kernels import strided
from common.kernels.permute import ladder


def check(array, dims, variant):
    """array: NumPy's, whose order in memory the array of the backend gets."""
    order = sorted(range(array.ndim), key=lambda i: -array.strides[i])
    given = on_device(array.transpose(order).copy()).transpose(tuple(np.argsort(order).tolist()))
    want = array.transpose(dims)
    out = poisoned(want.shape, array.dtype)
    with cuda.guarded():
        assert kernels.permute(given, dims, out=out, variant=variant) is out
    np.testing.assert_array_equal(cuda.asnumpy(out), want)
    result = kernels.permute(given, dims, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(result), want)
    assert result.flags.c_contiguous


@both_dtypes
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 7, 5, 3), (1, 17, 33, 7), (3, 1, 7, 13)], ids=str)
def test_every_order_of_four_dimensions(rng, dtype, shape):
    x = draw(rng, *shape, dtype=dtype)
    for dims in itertools.permutations(range(4)):
        check(x, dims, "naive")


@both_dtypes
@pytest.mark.parametrize("shape", [(), (1,), (7,), (17, 33), (3, 67, 5), (2, 3, 2, 5, 7)], ids=str)
def test_other_ranks(rng, dtype, shape):
    x, rank = draw(rng, *shape, dtype=dtype), len(shape)
    for dims in itertools.permutations(range(rank)) if rank < 5 else [(0, 3, 4, 1, 2)]:
        check(x, dims, None)


@both_dtypes
@settings(max_examples=examples(40))
@given(
    shape=st.tuples(*[st.integers(1, 40 if ALL else 18)] * 4),
    lies=st.permutations(range(4)),
    dims=st.permutations(range(4)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_order_in_memory(dtype, shape, lies, dims, seed):
    x = draw(np.random.default_rng(seed), *shape, dtype=dtype).transpose(lies)
    check(x, tuple(dims), "naive")
    check(x, tuple(dims), None)


TURNED = [(1, 33, 31, 2), (2, 3, 17, 7), (1, 64, 8, 8), (3, 65, 1, 2), (2, 32, 4, 8), (1, 2, 1, 2)]


@both_dtypes
@pytest.mark.parametrize("shape", TURNED, ids=str)
def test_tiles_turn_layouts(rng, dtype, shape):
    x = draw(rng, *shape, dtype=dtype)
    check(x, (0, 2, 3, 1), "tiled")
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    check(nhwc, (0, 1, 2, 3), "tiled")
    check(np.ascontiguousarray(x[0, :, 0]), (1, 0), "tiled")


@pytest.mark.skipif(cuda.backend() == "gpu", reason="a trace is the simulator's")
@both_dtypes
def test_what_a_tile_saves(rng, dtype):
    """Both arrays' sectors once each, no race, and no bank conflict; rung 1 asks for one sector an element."""
    x = on_device(draw(rng, 64, 64, dtype=dtype))
    sectors = x.nbytes // 32
    reports = {}
    for variant, blocks in (("naive", 16), ("tiled", 4)):
        out = poisoned((64, 64), dtype)
        kernel = ladder.kernel(variant, dtype)
        reports[variant] = cuda.trace(kernel, (blocks,), (256,), (x, out, 1, 1, 64, 64, 0, 0, 1, 64))
        assert reports[variant].findings == ()
        np.testing.assert_array_equal(out, x.T)
        assert reports[variant].global_stores.sectors == sectors
    assert reports["naive"].global_loads.sectors == 64 * 64
    assert reports["tiled"].global_loads.sectors == sectors
    assert reports["tiled"].shared_loads.conflicts == reports["tiled"].shared_stores.conflicts == 0


def test_dimensions_are_merged():
    assert strided.coalesce_dims((2, 3, 5, 7), (105, 35, 7, 1)) == [(210, 1)]
    assert strided.coalesce_dims((2, 3, 5, 7), (105, 1, 21, 3)) == [(2, 105), (3, 1), (35, 3)]
    assert strided.coalesce_dims((2, 3, 1, 7), (21, 7, 9, 1), (3, 1, 5, 0)) == [(6, 7, 1), (7, 1, 0)]
    assert strided.coalesce_dims((1, 1), (4, 1)) == []
    assert strided.pad_to_4d([(6, 7)], 1) == [(1, 0), (1, 0), (1, 0), (6, 7)]


def test_wrong_arguments():
    x = cuda.full((2, 3, 5), 1)
    for dims in ((0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -1), 5, "012", (0, 1, 2.0)):
        with pytest.raises(ValueError, match=r"dims must be an order of the 3 dimensions of x \(2, 3, 5\), got"):
            kernels.permute(x, dims)
    with pytest.raises(ValueError, match="x must lie in memory without gaps, got strides"):
        kernels.permute(x[:, ::2], (2, 1, 0))
    with pytest.raises(TypeError, match="x must be an array, got list"):
        kernels.permute([1.0], (0,))
    with pytest.raises(TypeError, match="x must be float32 or float16, got int32"):
        kernels.permute(x.astype(np.int32), (2, 1, 0))
    with pytest.raises(ValueError, match=r"out must have shape \(5, 3, 2\), got \(2, 3, 5\)"):
        kernels.permute(x, (2, 1, 0), out=x)
    with pytest.raises(ValueError, match="variant 'tiled' takes orders that turn the last two dimensions"):
        kernels.permute(x, (1, 0, 2), variant="tiled")
    with pytest.raises(ValueError, match="dims must leave at most four dimensions"):
        kernels.permute(cuda.full((2,) * 6, 1), (5, 4, 3, 2, 1, 0))
