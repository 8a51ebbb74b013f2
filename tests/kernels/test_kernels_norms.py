"""layer_norm, group_norm and mean against float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels
from common.cuda.layout import is_plain

F = torch.nn.functional
SHAPES = [(2, 7, 5, 3), (1, 96, 4, 5), (3, 33, 1, 1), (1, 1, 7, 7), (2, 257), (5, 3, 17), (7,), (2, 3, 2, 5, 3)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
layouts = pytest.mark.parametrize("layout", cuda.LAYOUTS)


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout) if array.ndim == 4 else on_device(array)


def normalized(x, dim, eps=1e-5):
    mean = x.mean(dim, keepdim=True)
    return (x - mean) / ((x - mean).square().mean(dim, keepdim=True) + eps).sqrt()


def takes(variant, shape, dim, layout):
    """Whether the elements along the dimension are neighbours, as warp_per_row requires."""
    order = (0, 2, 3, 1) if layout == "NHWC" and not is_plain(shape) else range(len(shape))
    after = list(order)[list(order).index(dim) + 1 :]
    return variant != "warp_per_row" or all(shape[i] == 1 for i in after)


@every_rung("layer_norm")
@both_dtypes
@layouts
@shapes
def test_layer_norm(rng, variant, dtype, layout, shape):
    x = draw(rng, *shape, dtype=dtype)
    for dim in range(len(shape)):
        if not takes(variant, shape, dim, layout):
            with pytest.raises(ValueError, match=f"takes a dim whose elements are neighbours, got {dim} of"):
                kernels.layer_norm(laid(x, layout), dim=dim, variant=variant)
            continue
        weight, bias = draw(rng, shape[dim], dtype=dtype), draw(rng, shape[dim], dtype=dtype)
        along = [-1 if i == dim else 1 for i in range(len(shape))]
        want = normalized(f64(x), dim) * f64(weight).reshape(along) + f64(bias).reshape(along)
        out = laid(poisoned(shape, dtype), layout)
        with cuda.guarded():
            given = laid(x, layout), on_device(weight), on_device(bias), dim
            assert kernels.layer_norm(*given, out=out, variant=variant) is out
        agrees(out, want, shape[dim], floor=0.1)
        plain = kernels.layer_norm(laid(x, layout), dim=dim - len(shape), eps=1e-2, variant=variant)
        agrees(plain, normalized(f64(x), dim, 1e-2), shape[dim], floor=0.1)


GROUPS = [((2, 6, 5, 7), 3), ((2, 8, 3, 5), 1), ((1, 5, 9, 4), 5), ((3, 12), 4), ((2, 4, 33), 2), ((1, 32, 11, 9), 8)]


@every_rung("group_norm")
@both_dtypes
@layouts
@pytest.mark.parametrize(("shape", "groups"), GROUPS, ids=str)
def test_group_norm(rng, variant, dtype, layout, shape, groups):
    x, weight, bias = draw(rng, *shape, dtype=dtype), draw(rng, shape[1], dtype=dtype), draw(rng, shape[1], dtype=dtype)
    want = F.group_norm(f64(x), groups, f64(weight), f64(bias))
    out = laid(poisoned(shape, dtype), layout)
    with cuda.guarded():
        given = laid(x, layout), groups, on_device(weight), on_device(bias)
        assert kernels.group_norm(*given, out=out, variant=variant) is out
    agrees(out, want, x.size // groups, floor=0.1)
    plain = kernels.group_norm(laid(x, layout), groups, eps=1e-2, variant=variant)
    agrees(plain, F.group_norm(f64(x), groups, eps=1e-2), x.size // groups, floor=0.1)


@every_rung("mean")
@both_dtypes
@layouts
@shapes
def test_mean(rng, variant, dtype, layout, shape):
    x = draw(rng, *shape, dtype=dtype)
    for dim in range(len(shape)):
        want = f64(x).mean(dim, keepdim=True)
        out = laid(poisoned(want.shape, dtype), layout)
        with cuda.guarded():
            assert kernels.mean(laid(x, layout), dim, out=out, variant=variant) is out
        agrees(out, want, shape[dim], floor=0.1)
        agrees(kernels.mean(laid(x, layout), dim - len(shape), variant=variant), want, shape[dim], floor=0.1)


@every_rung("layer_norm")
def test_a_large_mean_does_not_cancel_the_variance(rng, variant):
    """E[x²] − E[x]² of these would be nothing but rounding. The deviations themselves are exact."""
    x = (4096 + rng.integers(-8, 8, (5, 96))).astype(np.float32)
    agrees(kernels.layer_norm(on_device(x), dim=1, variant=variant), normalized(f64(x), 1), 96 * 1000)


@every_rung("group_norm")
def test_nor_that_of_a_group(rng, variant):
    x = (4096 + rng.integers(-8, 8, (2, 6, 9, 7))).astype(np.float32)
    agrees(kernels.group_norm(on_device(x), 2, variant=variant), F.group_norm(f64(x), 2), 189 * 1000)


@settings(max_examples=examples(20))
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 9), st.integers(1, 9)),
    layout=st.sampled_from(cuda.LAYOUTS),
    data=st.data(),
)
def test_any_shape(shape, layout, data):
    x = draw(np.random.default_rng(sum(shape)), *shape)
    groups = data.draw(st.sampled_from([g for g in range(1, shape[1] + 1) if shape[1] % g == 0]))
    with cuda.guarded():
        out = kernels.layer_norm(laid(x, layout), eps=0.1, out=laid(poisoned(shape, np.float32), layout))
        agrees(out, normalized(f64(x), 1, 0.1), x.size, floor=0.1)
        out = kernels.group_norm(laid(x, layout), groups, eps=0.1, out=laid(poisoned(shape, np.float32), layout))
    size = shape[1] // groups * shape[2] * shape[3]
    grouped = normalized(f64(x).reshape(shape[0], groups, size), 2, 0.1).reshape(shape)
    agrees(out, grouped, x.size, floor=0.1)


ONES = cuda.full((2, 6, 5, 7), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.layer_norm(ONES, dim=4), "dim must be an integer from -4 to 3, got 4"),
        (lambda: kernels.layer_norm(ONES, eps=-1), "eps must be a finite number of at least 0, got -1"),
        (lambda: kernels.layer_norm(ONES, cuda.full((5,), 1)), r"weight must have shape \(6\), got \(5,\)"),
        (lambda: kernels.layer_norm(ONES, None, cuda.full((5,), 1)), r"bias must have shape \(6\), got \(5,\)"),
        (lambda: kernels.group_norm(ONES, 4), "num_groups must be an integer that divides the 6 channels of x, got 4"),
        (lambda: kernels.group_norm(ONES, 2, eps=float("nan")), "eps must be a finite number of at least 0, got nan"),
        (
            lambda: kernels.group_norm(ONES[0, 0, 0], 1),
            r"x must have at least two dimensions \(N, C\), got shape \(7,\)",
        ),
        (lambda: kernels.group_norm(ONES, 2, cuda.full((2,), 1)), r"weight must have shape \(6\), got \(2,\)"),
        (lambda: kernels.mean(ONES, "1"), "dim must be an integer from -4 to 3, got '1'"),
        (lambda: kernels.mean(ONES, out=ONES), r"out must have shape \(2, 1, 5, 7\), got \(2, 6, 5, 7\)"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
