"""conv_transpose2d against PyTorch in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned
from tiers import examples

from common import cuda, kernels

F = torch.nn.functional


def laid(array, layout):
    return None if array is None else cuda.to_layout(on_device(array), layout)


# x, weight; stride, padding, output_padding, groups, dilation
CASES = [
    ((2, 7, 5, 3), (7, 4, 3, 3), (1, 0, 0, 1, 1)),
    ((2, 6, 5, 7), (6, 3, 2, 2), (2, 0, 0, 1, 1)),  # U-Net's
    ((1, 3, 4, 5), (3, 5, 4, 4), (2, 1, 0, 1, 1)),  # DCGAN's
    ((2, 8, 3, 5), (8, 3, 3, 2), ((2, 3), (1, 0), (1, 2), 4, 1)),
    ((1, 6, 5, 4), (6, 1, 3, 3), (2, 1, 1, 6, 1)),  # depthwise
    ((2, 4, 7, 5), (4, 6, 3, 2), ((1, 2), (2, 1), (0, 2), 2, (2, 3))),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 0, 0, 1, 1)),
    ((1, 5, 6, 7), (5, 2, 1, 1), (3, 0, 2, 1, 1)),  # pixels that no tap reaches
]


@every_rung("conv_transpose2d")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("shape", "filters", "how"), CASES, ids=str)
def test_conv_transpose2d(rng, variant, dtype, layout, shape, filters, how):
    x, weight = draw(rng, *shape, dtype=dtype), draw(rng, *filters, dtype=dtype)
    bias = draw(rng, filters[1] * how[3], dtype=dtype)
    want = F.conv_transpose2d(f64(x), f64(weight), f64(bias), *how)
    out = laid(poisoned(want.shape, dtype), layout)
    with cuda.guarded():
        given = laid(x, layout), laid(weight, layout), on_device(bias), *how
        assert kernels.conv_transpose2d(*given, out=out, variant=variant) is out
    k = shape[1] // how[3] * math.prod(filters[2:])
    agrees(out, want, k)
    agrees(kernels.conv_transpose2d(*given[:2], None, *how, variant=variant), want - f64(bias)[:, None, None], k)


@every_rung("conv_transpose2d")
@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(
    ("activation", "bounds"), [(None, (-math.inf, math.inf)), ("relu6", (0, 6)), ((-0.5, 1.5), (-0.5, 1.5))]
)
def test_epilogue_and_sides(rng, variant, dtype, layout, activation, bounds):
    """bias, then residual, then the clamp; what is cut off differs from side to side."""
    x, weight, bias = (draw(rng, *s, dtype=dtype) for s in [(2, 4, 5, 6), (4, 3, 3, 4), (3,)])
    whole = F.conv_transpose2d(f64(x), f64(weight), f64(bias), 2)
    want = whole[:, :, 1:-2, : whole.shape[3] - 1]
    residual = draw(rng, *want.shape, dtype=dtype)
    out = laid(poisoned(want.shape, dtype), layout)
    with cuda.guarded():
        kernels.conv_transpose2d(
            laid(x, layout), laid(weight, layout), on_device(bias), 2, ((1, 2), (0, 1)),
            residual=laid(residual, layout), activation=activation, out=out, variant=variant,
        )  # fmt: skip
    agrees(out, (want + f64(residual)).clamp(*bounds), 48)


@every_rung("conv_transpose2d")
@settings(max_examples=examples(25))
@given(data=st.data(), layout=st.sampled_from(cuda.LAYOUTS))
def test_any_geometry(data, variant, layout):
    def one(low, high):
        return data.draw(st.integers(low, high))

    groups, kernel, stride, dilation = one(1, 3), (one(1, 4), one(1, 4)), (one(1, 3), one(1, 3)), (one(1, 2), one(1, 2))
    more = tuple(one(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True))
    pads = tuple(one(0, d * (k - 1) // 2) for d, k in zip(dilation, kernel, strict=True))
    rng = np.random.default_rng(sum(kernel))
    x = draw(rng, one(1, 2), groups * one(1, 3), one(1, 5), one(1, 5))
    weight = draw(rng, x.shape[1], one(1, 3), *kernel)
    want = F.conv_transpose2d(f64(x), f64(weight), None, stride, pads, more, groups, dilation)
    out = laid(poisoned(want.shape, np.float32), layout)
    with cuda.guarded():
        kernels.conv_transpose2d(
            laid(x, layout), laid(weight, layout), None, stride, pads, more, groups, dilation, out=out, variant=variant
        )
    agrees(out, want, 48, floor=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weight": (5, 2, 3, 3)}, r"weight must have shape \(4, any, any, any\), got \(5, 2, 3, 3\)"),
        ({"groups": 3}, "groups must be an integer that divides the 4 channels of x, got 3"),
        ({"stride": 0}, "stride must be an integer of at least 1 .* got 0"),
        ({"output_padding": (0, 2), "stride": 2}, "output_padding must be below stride 2 or dilation 1, got 2"),
        ({"padding": 4}, r"padding must leave at least one pixel of 7, got \(4, 4\)"),
        ({"bias": (4,)}, r"bias must have shape \(2\), got \(4,\)"),
        ({"residual": (1, 2, 7, 7)}, r"residual must have shape \(1, 2, 7, 8\), got \(1, 2, 7, 7\)"),
        ({"activation": "gelu"}, "activation must be None, 'relu', 'relu6' or a pair .* got 'gelu'"),
    ],
    ids=str,
)
def test_wrong_arguments(changed, message):
    arrays = {"x": (1, 4, 5, 6), "weight": (4, 2, 3, 3)}
    arrays |= {name: value for name, value in changed.items() if name in ("weight", "bias", "residual")}
    rest = {name: value for name, value in changed.items() if name not in arrays}
    with pytest.raises(ValueError, match=message):
        kernels.conv_transpose2d(**{name: cuda.full(shape, 1) for name, shape in arrays.items()}, **rest)
