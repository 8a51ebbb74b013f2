"""resize against float64: ONNX's formulas written out, and PyTorch's interpolate."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples, seldom

from common import cuda, kernels
from common.kernels.resize import COORDINATES, ROUNDING

F = torch.nn.functional
SIZES = [
    ((7, 5), (14, 10)),
    ((7, 5), (13, 17)),
    ((9, 33), (4, 7)),
    ((1, 1), (3, 2)),
    ((5, 7), (1, 1)),
    ((6, 3), (6, 3)),
]
sizes = pytest.mark.parametrize(("before", "after"), SIZES, ids=str)
layouts = pytest.mark.parametrize("layout", cuda.LAYOUTS)


def laid(array, layout):
    return cuda.to_layout(on_device(array), layout)


def positions(coordinates, extent, size, scale):
    """Of each index of out, in x."""
    i = np.arange(size)
    if coordinates == "align_corners":
        return i * (extent - 1) / max(size - 1, 1)
    if coordinates == "asymmetric":
        return i / scale
    at = (i + 0.5) / scale - 0.5
    return 0 * at if coordinates == "pytorch_half_pixel" and size == 1 else at


def nearest(rounding, at, extent):
    found = {"floor": np.floor(at), "ceil": np.ceil(at), "round_prefer_floor": np.ceil(at - 0.5)}
    return np.clip(found.get(rounding, np.floor(at + 0.5)), 0, extent - 1).astype(int)


def linear(x, axis, at):
    at = np.clip(at, 0, x.shape[axis] - 1)
    first = np.floor(at).astype(int)
    after = (at - first).reshape([-1 if i == axis else 1 for i in range(4)])
    second = np.minimum(first + 1, x.shape[axis] - 1)
    return x.take(first, axis) * (1 - after) + x.take(second, axis) * after


@every_rung("resize")
@both_dtypes
@layouts
@pytest.mark.parametrize("coordinates", COORDINATES)
@sizes
def test_linear(rng, variant, dtype, layout, coordinates, before, after):
    x = draw(rng, 2, 3, *before, dtype=dtype)
    want = x.astype(np.float64)
    for axis in (0, 1):
        scale = after[axis] / before[axis]
        want = linear(want, 2 + axis, positions(coordinates, before[axis], after[axis], scale))
    out = laid(poisoned(want.shape, dtype), layout)
    with cuda.guarded():
        assert kernels.resize(laid(x, layout), after, coordinates=coordinates, out=out, variant=variant) is out
    agrees(out, want, k=16)  # a position of float32 is wrong by its own rounding as well
    agrees(kernels.resize(laid(x, layout), after, coordinates=coordinates, variant=variant), want, k=16)


@every_rung("resize")
@both_dtypes
@layouts
@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize(
    ("before", "scales"), [((7, 5), (2, 4)), ((9, 33), (0.5, 0.25)), ((1, 1), (3, 2)), ((5, 6), (1.5, 0.75))], ids=str
)
def test_nearest(rng, variant, dtype, layout, rounding, coordinates, before, scales):
    """Scales for which float32 has every position, or one far enough from where it is rounded the other way."""
    x = draw(rng, 2, 3, *before, dtype=dtype)
    after = tuple(int(extent * scale) for extent, scale in zip(before, scales, strict=True))
    rows, columns = (
        nearest(rounding, positions(coordinates, extent, size, scale).round(5), extent)
        for extent, size, scale in zip(before, after, scales, strict=True)
    )
    how = {"mode": "nearest", "coordinates": coordinates, "rounding": rounding, "scales": scales}
    out = laid(poisoned((2, 3, *after), dtype), layout)
    with cuda.guarded():
        kernels.resize(laid(x, layout), after, **how, out=out, variant=variant)
    np.testing.assert_array_equal(cuda.asnumpy(out), x[:, :, rows][..., columns])


PYTORCH = {
    "nearest": ({"mode": "nearest", "coordinates": "asymmetric"}, {"mode": "nearest"}),
    "bilinear": ({}, {"mode": "bilinear", "align_corners": False}),
    "corners": ({"coordinates": "align_corners"}, {"mode": "bilinear", "align_corners": True}),
}


@seldom(6)
@every_rung("resize")
@both_dtypes
@settings(max_examples=examples(25))
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 13), st.integers(1, 13)),
    size=st.tuples(st.integers(1, 29), st.integers(1, 29)),
    name=st.sampled_from(sorted(PYTORCH)),
    layout=st.sampled_from(cuda.LAYOUTS),
)
def test_as_pytorch(variant, dtype, shape, size, name, layout):
    mine, theirs = PYTORCH[name]
    x = draw(np.random.default_rng(sum(shape)), *shape, dtype=dtype)
    out = laid(poisoned((*shape[:2], *size), dtype), layout)
    with cuda.guarded():
        kernels.resize(laid(x, layout), size, **mine, out=out, variant=variant)
    agrees(out, F.interpolate(f64(x), size, **theirs), k=64)


@every_rung("resize")
def test_scales_of_their_own_move_the_positions(rng, variant):
    """As interpolate(scale_factor=1.7) has it: 8 pixels of 5 are not 1.6 times as many there."""
    x = draw(rng, 1, 2, 5, 6)
    want = F.interpolate(f64(x), scale_factor=(1.7, 1.25), mode="bilinear")
    out = kernels.resize(on_device(x), tuple(want.shape[2:]), scales=(1.7, 1.25), variant=variant)
    agrees(out, want, k=16)


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((0,), {}, "size must be an integer of at least 1 .* got 0"),
        ((3,), {"mode": "cubic"}, "mode must be one of 'nearest', 'linear', got 'cubic'"),
        ((3,), {"coordinates": "tf_crop_and_resize"}, "coordinates must be one of 'asymmetric', .* got 'tf_crop"),
        ((3,), {"rounding": "round"}, "rounding must be one of 'floor', .* got 'round'"),
        ((3,), {"scales": (1, 0)}, r"scales must be two positive numbers \(height, width\), got \(1, 0\)"),
        ((3,), {"scales": 2}, "scales must be two positive numbers .* got 2"),
        ((3,), {"out": cuda.full((2, 3, 3, 4), 1)}, r"out must have shape \(2, 3, 3, 3\), got \(2, 3, 3, 4\)"),
        ((3,), {"variant": "fast"}, "resize: variant must be one of .*naive.*, got 'fast'"),
    ],
)
def test_wrong_arguments(given, named, message):
    with pytest.raises(ValueError, match=message):
        kernels.resize(cuda.full((2, 3, 5, 7), 1), *given, **named)
