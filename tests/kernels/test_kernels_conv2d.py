"""conv2d and im2col against torch in float64."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, every_rung, f64, on_device, poisoned

from common import cuda, kernels, topology

ACTIVATIONS = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), (-0.75, 1.5): (-0.75, 1.5)}


@dataclass(frozen=True)
class Case:
    """A convolution: shape of x, output channels, and torch's parameters, padding as ((top, bottom), (left, right))."""

    x: tuple[int, int, int, int]
    out_channels: int
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = True
    residual: bool = False
    activation: Any = None

    def __str__(self) -> str:
        n, c, h, w = self.x
        return f"{n}x{c}x{h}x{w}-{self.out_channels}-k{self.kernel}-s{self.stride}-g{self.groups}"

    @property
    def k(self) -> int:
        return self.x[1] // self.groups * math.prod(self.kernel)


def padded(x, padding):
    (top, bottom), (left, right) = padding
    return F.pad(x, (left, right, top, bottom))


def check_conv2d(rng, case, dtype=np.float32, variant=None, floor=None):
    x = draw(rng, *case.x, dtype=dtype)
    weight = draw(rng, case.out_channels, case.x[1] // case.groups, *case.kernel, dtype=dtype)
    bias = draw(rng, case.out_channels, dtype=dtype) if case.bias else None
    reference = F.conv2d(
        padded(f64(x), case.padding), f64(weight), f64(bias), case.stride, 0, case.dilation, case.groups
    )
    residual = draw(rng, *reference.shape, dtype=dtype) if case.residual else None
    if case.residual:
        reference = reference + f64(residual)
    out = poisoned(tuple(reference.shape), dtype)
    result = kernels.conv2d(
        on_device(x), on_device(weight), on_device(bias), case.stride, case.padding, case.dilation, case.groups,
        residual=on_device(residual), activation=case.activation, out=out, variant=variant,
    )  # fmt: skip
    assert result is out
    floor = 0.1 * math.sqrt(case.k) if floor is None else floor
    agrees(out, reference.clamp(*ACTIVATIONS[case.activation]), case.k, floor)


@every_rung("conv2d")
@both_dtypes
@pytest.mark.parametrize(
    "case",
    [
        Case((1, 1, 1, 1), 1, (1, 1)),
        Case((1, 1, 7, 7), 1),
        Case((2, 3, 17, 13), 7, padding=((1, 1), (1, 1))),
        Case((1, 7, 33, 31), 17, (1, 1)),
        Case((1, 5, 17, 19), 3, (3, 5), (2, 3), ((1, 1), (2, 2))),
        Case((2, 3, 13, 11), 4, (3, 3), (2, 2), ((0, 1), (0, 1))),
        Case((1, 3, 11, 17), 5, (2, 4), (1, 2), ((3, 0), (1, 4))),
        Case((1, 2, 19, 23), 3, (3, 3), (1, 1), ((2, 2), (4, 4)), (2, 4)),
        Case((1, 6, 9, 7), 9, (3, 3), (1, 1), ((1, 1), (1, 1)), groups=3),
        Case((2, 13, 7, 7), 13, (3, 3), (1, 1), ((1, 1), (1, 1)), groups=13),
        Case((1, 5, 17, 17), 15, (3, 3), (2, 2), ((1, 1), (1, 1)), groups=5),
        Case((1, 2, 3, 3), 2, (5, 5), (1, 1), ((1, 1), (1, 1))),
        Case((1, 3, 2, 2), 2, (1, 1), (1, 1), ((3, 2), (0, 5))),
        Case((1, 4, 7, 1), 2, (7, 1), (3, 2)),
        Case((5, 67, 1, 1), 37, (1, 1)),
    ],
    ids=str,
)
def test_conv2d(rng, variant, dtype, case):
    check_conv2d(rng, case, dtype, variant)


@every_rung("conv2d")
@both_dtypes
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_conv2d_epilogue(rng, variant, dtype, bias, residual, activation):
    """activation(convolution + bias + residual), in that order."""
    case = Case((2, 3, 7, 5), 4, (3, 3), (1, 1), ((1, 1), (1, 1)))
    check_conv2d(rng, replace(case, bias=bias, residual=residual, activation=activation), dtype, variant)


@st.composite
def cases(draw_value):
    def pair(low, high):
        return draw_value(st.tuples(st.integers(low, high), st.integers(low, high)))

    groups = draw_value(st.integers(1, 4))
    kernel, dilation = pair(1, 4), pair(1, 3)
    case = Case(
        x=(draw_value(st.integers(1, 3)), groups * draw_value(st.integers(1, 5)), *pair(1, 14)),
        out_channels=groups * draw_value(st.integers(1, 5)),
        kernel=kernel,
        stride=pair(1, 4),
        padding=(pair(0, 4), pair(0, 4)),
        dilation=dilation,
        groups=groups,
        bias=draw_value(st.booleans()),
        residual=draw_value(st.booleans()),
        activation=draw_value(st.sampled_from(list(ACTIVATIONS))),
    )
    for size, k, pads, d in zip(case.x[2:], kernel, case.padding, dilation, strict=True):
        assume(size + sum(pads) > d * (k - 1))
    return case


@settings(max_examples=200, deadline=None)
@given(
    cases(),
    st.sampled_from([np.float32, np.float16]),
    st.sampled_from(kernels.variants("conv2d")),
    st.integers(0, 2**32 - 1),
)
def test_conv2d_of_any_shape(case, dtype, variant, seed):
    check_conv2d(np.random.default_rng(seed), case, dtype, variant)


def convolutions(graph):
    """The distinct convolutions of a network, as cases; those before a ReLU6 take it along."""
    clamped = {layer.inputs[0] for layer in graph if isinstance(layer, topology.ReLU6)}
    added = {name for layer in graph if isinstance(layer, topology.ResidualAdd) for name in layer.inputs}
    return list(
        dict.fromkeys(
            Case(
                layer.input_shapes[0], layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                layer.dilation, layer.groups, residual=layer.output in added,
                activation="relu6" if layer.output in clamped else None,
            )
            for layer in graph
            if isinstance(layer, topology.Conv2d)
        )
    )  # fmt: skip


FULL_SIZE = convolutions(topology.build())
DIGITS = convolutions(topology.build(width=0.35, num_classes=10, input_size=48))


def test_the_network_has_as_many_distinct_convolutions_as_the_paper():
    """52 convolutions; blocks that repeat have the same, but for the last of a run, to which something is not added."""
    assert 30 <= len(FULL_SIZE) < 52


@every_rung("conv2d")
@pytest.mark.parametrize("case", FULL_SIZE, ids=str)
def test_conv2d_in_mobilenetv2(rng, variant, case):
    check_conv2d(rng, case, np.float32, variant, floor=0)


@every_rung("conv2d")
@both_dtypes
@pytest.mark.parametrize("case", DIGITS, ids=str)
def test_conv2d_in_the_digits_network(rng, variant, dtype, case):
    check_conv2d(rng, case, dtype, variant, floor=0)


@every_rung("conv2d")
def test_conv2d_keeps_nan_through_its_activation(variant):
    """A NaN reaches the outputs that read it, in every channel, and no others."""
    x, weight = np.ones((1, 1, 5, 5), np.float32), np.ones((2, 1, 3, 3), np.float32)
    x[0, 0, 0, 0] = np.nan
    out = kernels.conv2d(
        on_device(x), on_device(weight), activation="relu6", out=poisoned((1, 2, 3, 3), np.float32), variant=variant
    )
    expected = np.zeros((1, 2, 3, 3), bool)
    expected[:, :, 0, 0] = True
    np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), expected)


@every_rung("conv2d")
@pytest.mark.parametrize(("given", "full"), [(2, ((2, 2), (2, 2))), ((1, 3), ((1, 1), (3, 3)))], ids=str)
def test_conv2d_padding_as_in_torch(rng, variant, given, full):
    """An int, or one for height and one for width; stride and dilation as an int too."""
    x, weight = draw(rng, 1, 2, 9, 8), draw(rng, 3, 2, 3, 3)
    out = kernels.conv2d(on_device(x), on_device(weight), None, 2, given, 2, variant=variant)
    agrees(out, F.conv2d(padded(f64(x), full), f64(weight), None, 2, 0, 2), k=18)


@every_rung("im2col")
@both_dtypes
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation"),
    [
        ((1, 1, 1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
        ((2, 3, 7, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
        ((1, 5, 17, 33), (3, 5), (2, 3), ((1, 1), (2, 2)), (1, 1)),
        ((2, 2, 13, 11), (2, 4), (1, 2), ((3, 0), (1, 4)), (3, 2)),
        ((3, 7, 1, 67), (1, 1), (1, 5), ((0, 2), (1, 0)), (1, 1)),
    ],
)
def test_im2col_equals_unfold(rng, variant, dtype, shape, kernel, stride, padding, dilation):
    """It only copies: equal to the bit."""
    x = draw(rng, *shape, dtype=dtype)
    reference = F.unfold(padded(f64(x), padding), kernel, dilation, 0, stride).numpy()
    out = poisoned(reference.shape, dtype)
    result = kernels.im2col(
        on_device(x), kernel, dilation=dilation, padding=padding, stride=stride, out=out, variant=variant
    )
    assert result is out
    np.testing.assert_array_equal(cuda.asnumpy(out), reference.astype(dtype))


@every_rung("im2col")
def test_a_convolution_is_im2col_and_gemm(rng, variant):
    x, weight = on_device(draw(rng, 1, 5, 9, 7)), draw(rng, 6, 5, 3, 3)
    columns = kernels.im2col(x, 3, padding=1, stride=2, variant=variant)[0]
    product = kernels.gemm(on_device(weight.reshape(6, 45)), columns)
    agrees(kernels.conv2d(x, on_device(weight), None, 2, 1), cuda.asnumpy(product).reshape(1, 6, 5, 4), k=45)
