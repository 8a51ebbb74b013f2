"""add, clamp, softmax and global_avg_pool against float64."""

import numpy as np
import pytest
import torch
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned

from common import cuda, kernels

SIZES = [1, 7, 17, 33, 255, 257, 1009]
SHAPES = [(1,), (7,), (17, 33), (3, 5, 7, 11), (1, 1, 1, 257), (10007,), ()]


@every_rung("add")
@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(rng, variant, dtype, shape):
    a, b = draw(rng, *shape, dtype=dtype), draw(rng, *shape, dtype=dtype)
    out = kernels.add(on_device(a), on_device(b), out=poisoned(shape, dtype), variant=variant)
    agrees(out, f64(a) + f64(b))


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
def test_softmax_of_large_scores_does_not_overflow(variant, dtype):
    x = np.array([[60000, 59999, -60000], [-60000, -60000, -60000]], np.float32).astype(dtype)
    out = kernels.softmax(on_device(x), out=poisoned(x.shape, dtype), variant=variant)
    agrees(out, f64(x).softmax(-1), k=3)


@every_rung("softmax")
def test_softmax_keeps_nan_in_its_row(variant):
    x = np.array([[1, np.nan, 2], [1, 2, 3]], np.float32)
    out = cuda.asnumpy(kernels.softmax(on_device(x), out=poisoned(x.shape, x.dtype), variant=variant))
    assert np.isnan(out[0]).all() and np.isfinite(out[1]).all()


@every_rung("global_avg_pool")
@both_dtypes
@pytest.mark.parametrize(
    ("n", "c", "h", "w"), [(1, 1, 1, 1), (2, 7, 7, 7), (1, 17, 33, 5), (3, 67, 1, 13), (1, 1280, 7, 7)]
)
def test_global_avg_pool(rng, variant, dtype, n, c, h, w):
    x = draw(rng, n, c, h, w, dtype=dtype)
    out = kernels.global_avg_pool(on_device(x), out=poisoned((n, c, 1, 1), dtype), variant=variant)
    agrees(out, f64(x).mean((2, 3), keepdim=True), k=h * w, floor=0.1)


@every_rung("global_avg_pool")
def test_global_avg_pool_sums_float16_in_float32(variant):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    x = np.full((1, 1, 1, 4001), 1, np.float16)
    out = kernels.global_avg_pool(on_device(x), out=poisoned((1, 1, 1, 1), np.float16), variant=variant)
    assert cuda.asnumpy(out).item() == 1
