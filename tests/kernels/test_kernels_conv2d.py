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
from tiers import examples, in_turn, seldom

from common import cuda, kernels, topology
from common.cuda import checks
from common.kernels.conv2d import LAUNCHES, Convolution

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


def in_layout(array, layout):
    """A NumPy array, or None, as the backend's in that memory layout."""
    return None if array is None else cuda.to_layout(cuda.asarray(array), layout)


def skip_unless_it_runs(variant):
    if variant is not None and kernels.requires("conv2d", variant) > cuda.compute_capability():
        pytest.skip(f"{variant} needs a card of sm_{kernels.requires('conv2d', variant)}")


def check_conv2d(rng, case, dtype=np.float32, variant=None, layout="NCHW", floor=None, call=kernels.conv2d):
    skip_unless_it_runs(variant)
    x = draw(rng, *case.x, dtype=dtype)
    weight = draw(rng, case.out_channels, case.x[1] // case.groups, *case.kernel, dtype=dtype)
    bias = draw(rng, case.out_channels, dtype=dtype) if case.bias else None
    reference = F.conv2d(
        padded(f64(x), case.padding), f64(weight), f64(bias), case.stride, 0, case.dilation, case.groups
    )
    residual = draw(rng, *reference.shape, dtype=dtype) if case.residual else None
    if case.residual:
        reference = reference + f64(residual)
    out = in_layout(poisoned(tuple(reference.shape), dtype), layout)
    result = call(
        in_layout(x, layout), in_layout(weight, layout), on_device(bias), case.stride, case.padding, case.dilation,
        case.groups, residual=in_layout(residual, layout), activation=case.activation, out=out, variant=variant,
    )  # fmt: skip
    assert result is out
    floor = 0.1 * math.sqrt(case.k) if floor is None else floor
    agrees(out, reference.clamp(*ACTIVATIONS[case.activation]), case.k, floor)


RUNGS = [(variant, layout) for layout in cuda.LAYOUTS for variant in kernels.variants("conv2d", layout=layout)]
every_rung_and_layout = pytest.mark.parametrize(("variant", "layout"), RUNGS)


@every_rung_and_layout
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
        Case((2, 24, 8, 8), 72, (3, 3), (1, 1), ((1, 1), (1, 1)), residual=True),
        Case((1, 32, 12, 14), 16, (3, 3), (2, 2), ((0, 1), (0, 1)), groups=2),
        Case((1, 72, 12, 12), 136, (1, 1)),
    ],
    ids=str,
)
def test_conv2d(rng, variant, dtype, layout, case):
    check_conv2d(rng, case, dtype, variant, layout)


@every_rung_and_layout
@both_dtypes
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_conv2d_epilogue(rng, variant, dtype, layout, bias, residual, activation):
    """activation(convolution + bias + residual), in that order."""
    case = Case((2, 3, 7, 5), 4, (3, 3), (1, 1), ((1, 1), (1, 1)))
    check_conv2d(rng, replace(case, bias=bias, residual=residual, activation=activation), dtype, variant, layout)


@both_dtypes
@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("out_channels", [8, 7])
@pytest.mark.parametrize("variant", ["tensor_cores", "halo"])
def test_a_reduction_in_parts(rng, variant, dtype, layout, parts, out_channels):
    """Blocks that take a part of the channels each, and a launch that adds their sums up."""

    def in_parts(x, weight, bias, stride, padding, dilation, groups, *, residual, activation, out, variant):
        bounds = checks.bounds(activation)
        call = Convolution(x, weight, bias, residual, out, layout, stride, padding, dilation, groups, bounds)
        LAUNCHES[variant](call, parts=parts).run(call)
        return out

    case = Case((2, 101, 7, 5), out_channels, padding=((1, 1), (1, 1)), residual=True, activation="relu6")
    check_conv2d(rng, case, dtype, variant, layout, call=in_parts)


@every_rung_and_layout
@both_dtypes
@pytest.mark.parametrize(
    "case",
    [
        Case((1, 3, 33, 35), 32, stride=(2, 2), padding=((1, 1), (1, 1)), activation="relu6"),
        Case((1, 136, 7, 7), 72, padding=((1, 1), (1, 1)), residual=True),
        Case((2, 45, 5, 6), 33, (2, 2)),
        Case((1, 80, 6, 6), 64, groups=2),
    ],
    ids=str,
)
def test_the_tiles_of_a_large_card(rng, monkeypatch, variant, layout, dtype, case):
    """Tiles are smaller, and reductions cut into parts, where a card has more multiprocessors than there are blocks."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    check_conv2d(rng, case, dtype, variant, layout)


@pytest.mark.parametrize(
    ("rung", "case"),
    in_turn(RUNGS, [Case((65_537, 1, 1, 1), 1, (1, 1)), Case((1, 1, 1, 1), 65_537, (1, 1))]),
    ids=str,
)
def test_more_images_or_channels_than_a_grid_is_high(rng, rung, case):
    """Grids hold 2³¹ − 1 blocks in x, but only 65,535 in y and z."""
    variant, layout = rung
    if variant == "im2col_gemm" and case.x[0] > 1:
        case = replace(case, x=(7, 1, 1, 1))  # two launches an image: many images are its loop's
    check_conv2d(rng, case, np.float32, variant, layout)


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


@seldom(6)
@every_rung_and_layout
@settings(max_examples=examples(25))
@given(case=cases(), dtype=st.sampled_from([np.float32, np.float16]), seed=st.integers(0, 2**32 - 1))
def test_conv2d_of_any_shape(case, dtype, variant, layout, seed):
    check_conv2d(np.random.default_rng(seed), case, dtype, variant, layout)


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


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize("case", FULL_SIZE, ids=str)
def test_conv2d_in_mobilenetv2(rng, case, layout):
    """The rungs that it chooses by itself."""
    check_conv2d(rng, case, np.float32, None, layout, floor=0)


@every_rung_and_layout
@pytest.mark.parametrize("case", [case for case in DIGITS if case.groups == 1][::2], ids=str)
def test_conv2d_in_the_digits_network(rng, variant, layout, case):
    check_conv2d(rng, case, np.float16, variant, layout, floor=0)


def test_arrays_of_two_layouts_are_refused(rng):
    x, weight = draw(rng, 1, 2, 7, 5), draw(rng, 3, 2, 3, 3)
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .* x .* weight"):
        kernels.conv2d(in_layout(x, "NHWC"), in_layout(weight, "NCHW"))
    with pytest.raises(ValueError, match="variant 'im2col_gemm' takes layout NCHW, got NHWC"):
        kernels.conv2d(in_layout(x, "NHWC"), in_layout(weight, "NHWC"), variant="im2col_gemm")
    assert not kernels.conv2d(in_layout(x, "NHWC"), in_layout(weight, "NHWC")).flags.c_contiguous


@every_rung_and_layout
@both_dtypes
def test_arrays_that_begin_anywhere(rng, variant, layout, dtype):
    """At an address that is no multiple of 16: neighbours are then taken one by one."""
    skip_unless_it_runs(variant)

    def one_on(array):
        stored = array.transpose(0, 2, 3, 1) if layout == "NHWC" and array.ndim == 4 else array
        moved = cuda.empty(array.size + 1, dtype)[1:].reshape(stored.shape)
        moved[...] = cuda.asarray(stored)
        return moved.transpose(0, 3, 1, 2) if stored is not array else moved

    x, weight, bias = (draw(rng, *shape, dtype=dtype) for shape in ((1, 16, 8, 8), (8, 16, 3, 3), (8,)))
    out = one_on(np.full((1, 8, 8, 8), np.nan))
    kernels.conv2d(one_on(x), one_on(weight), one_on(bias), padding=1, out=out, variant=variant)
    agrees(out, F.conv2d(f64(x), f64(weight), f64(bias), padding=1), 144, 1)


@every_rung("conv2d")
def test_conv2d_keeps_nan_through_its_activation(variant):
    """A NaN reaches the outputs that read it, in every channel, and no others."""
    skip_unless_it_runs(variant)
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
    skip_unless_it_runs(variant)
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


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize("variant", kernels.variants("conv2d", np.float32))
def test_sums_do_not_drift(rng, variant, layout):
    """Tensor cores cut their sums off: left to them, 4,608 products err by 3e-5."""
    skip_unless_it_runs(variant)
    if variant not in kernels.variants("conv2d", np.float32, layout):
        pytest.skip(f"{variant} takes no {layout}")
    x, weight = draw(rng, 1, 512, 5, 5), draw(rng, 16, 512, 3, 3)
    out = kernels.conv2d(in_layout(x, layout), in_layout(weight, layout), None, 1, 1, variant=variant)
    want = F.conv2d(f64(x), f64(weight), padding=1).numpy()
    assert np.linalg.norm(cuda.asnumpy(out) - want) <= 2e-6 * np.linalg.norm(want)
