"""depthwise against torch in float64, in both layouts."""

import importlib
import math
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, draw, every_rung_and_dtype, f64, on_device, poisoned
from tiers import examples, seldom

from common import cuda, kernels, topology
from common.cuda import layout as layouts
from common.report import sections

DTYPES = ("float32", "float16", "float64")
ACTIVATIONS = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), (-0.75, 1.5): (-0.75, 1.5)}
LAUNCHER = importlib.import_module("common.kernels.depthwise")  # common.kernels.depthwise is the function


@dataclass(frozen=True)
class Case:
    """A depthwise convolution: shape of x and torch's parameters, padding as ((top, bottom), (left, right))."""

    x: tuple[int, int, int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1))
    dilation: tuple[int, int] = (1, 1)
    bias: bool = True
    residual: bool = False
    activation: Any = None

    def __str__(self) -> str:
        n, c, h, w = self.x
        return f"{n}x{c}x{h}x{w}-k{self.kernel}-s{self.stride}-d{self.dilation}".replace(" ", "")


def layouts_of(variant, dtype):
    return [name for name in layouts.LAYOUTS if variant in kernels.variants("depthwise", dtype, name)]


def lying(array, layout):
    return None if array is None else cuda.to_layout(on_device(array), layout)


def check(rng, case, dtype=np.float32, variant=None, layout="NCHW", floor=None):
    """One launch with a poisoned output, against the reference."""
    x = draw(rng, *case.x, dtype=dtype)
    weight = draw(rng, case.x[1], 1, *case.kernel, dtype=dtype)
    bias = draw(rng, case.x[1], dtype=dtype) if case.bias else None
    (top, bottom), (left, right) = case.padding
    padded = F.pad(f64(x), (left, right, top, bottom))
    reference = F.conv2d(padded, f64(weight), f64(bias), case.stride, 0, case.dilation, case.x[1])
    residual = draw(rng, *reference.shape, dtype=dtype) if case.residual else None
    if case.residual:
        reference = reference + f64(residual)
    out = layouts.empty(tuple(reference.shape), dtype, layout)
    out[...] = np.nan
    result = kernels.depthwise(
        lying(x, layout), on_device(weight), on_device(bias), case.stride, case.padding, case.dilation,
        activation=case.activation, residual=lying(residual, layout), out=out, variant=variant,
    )  # fmt: skip
    assert result is out
    k = int(np.prod(case.kernel))
    agrees(result, reference.clamp(*ACTIVATIONS[case.activation]), k=k, floor=k**0.5 / 2 if floor is None else floor)


CASES = [
    Case((1, 1, 1, 1), (1, 1), padding=((0, 0), (0, 0))),
    Case((2, 5, 7, 7)),  # no vector fits 5 channels
    Case((2, 8, 7, 7), stride=(2, 2)),
    Case((3, 16, 17, 33)),
    Case((1, 36, 9, 11), stride=(2, 2)),  # channels that are no multiple of a block's
    Case((2, 4, 13, 31), (5, 3), (1, 2), ((2, 1), (0, 3)), (2, 1), residual=True, activation="relu"),
    Case((1, 6, 11, 9), (7, 7), padding=((3, 3), (3, 3)), residual=True),
    Case((2, 12, 1, 67), (1, 2), (1, 3), ((0, 0), (1, 0)), (1, 3)),
    Case((1, 2, 37, 1), (4, 1), (3, 1), ((0, 2), (0, 0))),
    Case((1, 8, 12, 10), padding=((3, 2), (2, 4)), dilation=(2, 2)),  # dilated windows over every edge
    Case((1, 8, 13, 13), (9, 11), (2, 1), ((5, 4), (5, 5))),  # more taps than fit into registers
    Case((1, 4, 5, 6), padding=((7, 7), (5, 5))),  # windows that see nothing of the image
]


@every_rung_and_dtype("depthwise", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_depthwise(rng, variant, dtype, case):
    for layout in layouts_of(variant, dtype):
        check(rng, case, dtype, variant, layout)


@every_rung_and_dtype("depthwise", DTYPES)
def test_epilogue(rng, variant, dtype):
    """activation(convolution + bias + residual), in that order, with each of them there or not."""
    for layout in layouts_of(variant, dtype):
        for activation in ACTIVATIONS:
            for bias, residual in ((False, False), (True, False), (False, True), (True, True)):
                case = Case((2, 8, 7, 5), bias=bias, residual=residual, activation=activation)
                check(rng, case, dtype, variant, layout)


# few kernels, as each is compiled for most rungs, but any size around them
GEOMETRIES = [
    Case((1, 1, 1, 1)),
    Case((1, 1, 1, 1), stride=(2, 2)),
    Case((1, 1, 1, 1), (2, 3), (3, 1), dilation=(1, 2)),
]


@seldom(6)
@settings(max_examples=examples(80))
@given(
    st.sampled_from(GEOMETRIES),
    st.tuples(st.integers(1, 3), st.sampled_from([1, 3, 4, 8, 40]), st.integers(1, 14), st.integers(1, 34)),
    st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.sampled_from([(v, d) for v in ("naive", "register_tile", "async_tile") for d in ("float32", "float16")]),
    st.sampled_from(layouts.LAYOUTS),
    st.integers(0, 2**32 - 1),
)
def test_any_shape(geometry, x, padding, rung, layout, seed):
    variant, dtype = rung
    case = replace(geometry, x=x, padding=padding)
    for side in (0, 1):
        assume(x[2 + side] + sum(padding[side]) > case.dilation[side] * (case.kernel[side] - 1))
    if layout not in layouts_of(variant, dtype):
        layout = "NHWC"
    check(np.random.default_rng(seed), case, np.dtype(dtype).type, variant, layout)


@settings(max_examples=examples(60))
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 14), st.integers(1, 14)),
    st.tuples(*[st.integers(1, 4)] * 6),
    st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.sampled_from(DTYPES),
    st.sampled_from(layouts.LAYOUTS),
    st.integers(0, 2**32 - 1),
)
def test_any_convolution(x, numbers, padding, dtype, layout, seed):
    """The first rung is compiled once for all of them."""
    kernel, stride, dilation = numbers[:2], numbers[2:4], numbers[4:]
    for side in (0, 1):
        assume(x[2 + side] + sum(padding[side]) > dilation[side] * (kernel[side] - 1))
    case = Case(x, kernel, stride, padding, dilation, residual=True, activation="relu6")
    check(np.random.default_rng(seed), case, np.dtype(dtype).type, "naive", layout)


def layers(graph):
    """The different depthwise convolutions of a network, as cases."""
    found = (layer for layer in graph if isinstance(layer, topology.Conv2d) and layer.groups > 1)
    return list(
        dict.fromkeys(
            Case(layer.input_shapes[0], layer.kernel_size, layer.stride, layer.padding, activation="relu6")
            for layer in found
        )
    )


FULL_SIZE = layers(topology.build())


def test_the_network_has_ten_different_ones():
    assert len(FULL_SIZE) == 10


@every_rung_and_dtype("depthwise")
def test_in_mobilenetv2(rng, variant, dtype):
    """The smallest with either stride; the rungs that run fast here take all of them."""
    cases = FULL_SIZE if variant == "naive" and dtype == np.float32 else FULL_SIZE[-2:]
    for case in cases:
        check(rng, case, dtype, variant, layouts_of(variant, dtype)[-1], floor=0)


@pytest.mark.parametrize("variant", ["register_tile", "async_tile"])
@pytest.mark.parametrize("case", [FULL_SIZE[-2], CASES[4], CASES[5]], ids=str)
def test_compiled_for_the_shape(rng, monkeypatch, variant, case):
    """As on a GPU: C, H, W and the padding are the compiler's constants. Elsewhere they are not, to save its time."""
    if kernels.requires("depthwise", variant) > cuda.compute_capability():
        pytest.skip(f"{variant} needs a newer card")
    switches = LAUNCHER._nhwc_switches
    monkeypatch.setattr(LAUNCHER, "_nhwc_switches", lambda s, residual: switches(s, residual) | s.constants())
    for dtype in (np.float32, np.float16):
        check(rng, case, dtype, variant, "NHWC")


@every_rung_and_dtype("depthwise", DTYPES)
@pytest.mark.parametrize("activation", [None, "relu6"])
def test_nan_reaches_the_outputs_that_read_it_and_no_others(variant, dtype, activation):
    x, weight = np.ones((1, 8, 5, 5), dtype), np.ones((8, 1, 3, 3), dtype)
    x[0, 3, 0, 0] = np.nan
    expected = np.zeros((1, 8, 3, 3), bool)
    expected[0, 3, 0, 0] = True
    for layout in layouts_of(variant, dtype):
        out = kernels.depthwise(lying(x, layout), on_device(weight), activation=activation, variant=variant)
        np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), expected)


@every_rung_and_dtype("depthwise", DTYPES)
def test_the_result_lies_as_x_does(rng, variant, dtype):
    for layout in layouts_of(variant, dtype):
        x = lying(draw(rng, 2, 4, 6, 5, dtype=dtype), layout)
        out = kernels.depthwise(x, on_device(draw(rng, 4, 1, 3, 3, dtype=dtype)), variant=variant)
        assert layouts.has(out, layout) and out.dtype == dtype


@every_rung_and_dtype("depthwise", DTYPES)
def test_arrays_that_no_vector_fits(rng, variant, dtype):
    """Rows of a larger array that begin one element behind a multiple of 16 bytes."""
    for layout in layouts_of(variant, dtype):
        image, weight = draw(rng, 1, 8, 5, 6, dtype=dtype), draw(rng, 8, 1, 3, 3, dtype=dtype)
        held = cuda.full(image.size + 1, 0, dtype)
        stored = image.transpose(0, 2, 3, 1) if layout == "NHWC" else image
        held[1:] = on_device(np.ascontiguousarray(stored)).ravel()
        x = held[1:].reshape(stored.shape)
        x = x.transpose(0, 3, 1, 2) if layout == "NHWC" else x
        out = kernels.depthwise(x, on_device(weight), None, 1, 1, variant=variant)
        agrees(out, F.conv2d(f64(image), f64(weight), None, 1, 1, 1, 8), k=9)


@settings(max_examples=examples(300))
@given(
    st.tuples(st.integers(1, 300), st.integers(1, 2000), st.integers(1, 300), st.integers(1, 300)),
    st.tuples(*[st.integers(1, 7)] * 2, *[st.integers(1, 3)] * 2, *[st.integers(1, 6)] * 2),
    st.sampled_from([2, 4]),
)
def test_what_a_gpu_is_asked_for(x, numbers, itemsize):
    """Sizes that the launcher chooses there fit into a block of every card that takes the rung."""
    kernel, stride, dilation = numbers[:2], numbers[2:4], numbers[4:]
    assume(all(x[2 + side] > dilation[side] * (kernel[side] - 1) for side in (0, 1)))
    oh, ow = ((x[2 + side] - dilation[side] * (kernel[side] - 1) - 1) // stride[side] + 1 for side in (0, 1))
    shape = LAUNCHER.Shape(*x, oh, ow, kernel, stride, dilation, 0, 0, itemsize)
    widest = math.gcd(16, x[1] * itemsize) // itemsize
    with mock.patch.object(cuda, "backend", lambda: "gpu"), mock.patch.object(cuda, "multiprocessors", lambda: 132):
        chosen = LAUNCHER._best(shape, "NHWC")[0]
        sizes = LAUNCHER.register_tile(shape, widest)
        assert sizes["THREADS"] % sizes["LANES"] == 0 and widest % sizes["V"] == 0
        sizes = LAUNCHER.async_tile(shape, widest)
    assert sizes["LANES"] * sizes["ACROSS"] * sizes["DOWN"] <= 512
    assert widest % sizes["V"] == 0 and sizes["LANES"] * sizes["V"] % sizes["PIECE"] == 0
    if chosen == "async_tile":
        assert LAUNCHER.shared_of(shape, sizes) <= cuda.SHARED_SM80


def test_padding_stride_and_dilation_as_in_torch(rng):
    x, weight = draw(rng, 1, 2, 9, 8), draw(rng, 2, 1, 3, 3)
    out = kernels.depthwise(on_device(x), on_device(weight), None, 2, (1, 3), (2, 1))
    agrees(out, F.conv2d(f64(x), f64(weight), None, 2, (1, 3), (2, 1), 2), k=9)


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_variant_anything_goes(rng, layout, dtype):
    """Also a kernel whose window reaches over more than shared memory holds."""
    for case in (CASES[1], CASES[5], Case((1, 8, 150, 140), (3, 3), (1, 1), ((70, 0), (0, 70)), (100, 90))):
        check(rng, case, dtype, None, layout)


def small(**changed):
    """A valid call, but for what is changed."""
    one = {"x": cuda.full((2, 6, 7, 5), 1), "weight": cuda.full((6, 1, 3, 3), 1), "bias": cuda.full(6, 1)} | changed
    return kernels.depthwise(**one)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"weight": (5, 1, 3, 3)}, ValueError, ("weight", "(6, 1, any, any)", "(5, 1, 3, 3)")),
        ({"weight": (6, 2, 3, 3)}, ValueError, ("weight", "(6, 1, any, any)", "(6, 2, 3, 3)")),
        ({"x": (6, 7, 5)}, ValueError, ("x", "(any, any, any, any)", "(6, 7, 5)")),
        ({"bias": (7,)}, ValueError, ("bias", "(6)", "(7,)")),
        ({"residual": (2, 6, 7, 5)}, ValueError, ("residual", "(2, 6, 5, 3)", "(2, 6, 7, 5)")),
        ({"out": (2, 6, 7, 5)}, ValueError, ("out", "(2, 6, 5, 3)", "(2, 6, 7, 5)")),
    ],
    ids=str,
)
def test_wrong_shapes(changed, error, words):
    with pytest.raises(error) as caught:
        small(**{name: cuda.full(shape, 1) for name, shape in changed.items()})
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"stride": 0}, ("stride", "at least 1", "0")),
        ({"padding": -1}, ("padding", "at least 0", "-1")),
        ({"dilation": 4}, ("kernel", "9", "7")),
        ({"activation": "gelu"}, ("activation", "'relu6'", "'gelu'")),
        ({"variant": "vectorised"}, ("variant", "'vectorised'", "NHWC", "NCHW")),
        ({"variant": "fast"}, ("variant", "naive", "'fast'")),
    ],
    ids=str,
)
def test_wrong_arguments(changed, words):
    with pytest.raises(ValueError) as caught:
        small(**changed)
    assert all(word in str(caught.value) for word in words)


def test_wrong_dtypes_and_layouts():
    with pytest.raises(TypeError, match="x must be float32 or float16 or float64, got int32"):
        small(x=cuda.full((2, 6, 7, 5), 1, np.int32))
    with pytest.raises(TypeError, match="weight must be float32 as the first argument is, got float16"):
        small(weight=cuda.full((6, 1, 3, 3), 1, np.float16))
    with pytest.raises(ValueError, match="takes dtype float32 or float16, got float64"):
        ones = cuda.full((1, 2, 3, 3), 1, np.float64)
        small(x=cuda.to_layout(ones, "NHWC"), weight=ones.reshape(2, 1, 3, 3), bias=None, variant="vectorised")
    with pytest.raises(ValueError, match="x must be dense in NCHW or NHWC, got strides"):
        small(x=cuda.full((2, 6, 7, 10), 1)[..., ::2])
    with pytest.raises(ValueError, match="all arrays must be NCHW, or all NHWC"):
        small(residual=cuda.to_layout(cuda.full((2, 6, 5, 3), 1), "NHWC"))


@pytest.mark.parametrize("variant", ["tile", "async_tile"])
def test_a_window_that_shared_memory_cannot_hold_is_refused_by_name(variant):
    if kernels.requires("depthwise", variant) > cuda.compute_capability():
        pytest.skip(f"{variant} needs a newer card")
    layout = "NHWC" if variant == "async_tile" else "NCHW"
    x = cuda.to_layout(cuda.full((1, 4, 150, 150), 1), layout)
    with pytest.raises(ValueError, match=rf"'{variant}' keeps the 149 × 149 inputs .* variant='naive'"):
        small(x=x, weight=cuda.full((4, 1, 3, 3), 1), bias=None, dilation=74, variant=variant)


def test_arrays_of_one_pixel_go_with_either_layout(rng):
    """x has both layouts, out only one of them."""
    x, weight = draw(rng, 1, 3, 1, 1), draw(rng, 3, 1, 3, 3)
    padding = ((1, 1), (1, 2))
    want = F.conv2d(F.pad(f64(x), (1, 2, 1, 1)), f64(weight), groups=3)
    for layout in cuda.LAYOUTS:
        out = cuda.to_layout(poisoned(tuple(want.shape), np.float32), layout)
        agrees(kernels.depthwise(on_device(x), on_device(weight), None, 1, padding, out=out), want, k=9, floor=0.5)


@pytest.mark.parametrize("rung", ["register_tile", "async_tile"])
def test_rungs_are_inspected_as_a_card_runs_them(rung):
    """With the shape as constants: the registers of the recorded launch."""
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    x, weight = cuda.to_layout(cuda.zeros((32, 144, 56, 56)), "NHWC"), cuda.zeros((144, 1, 3, 3))
    found = kernels.inspect("depthwise", rung, x, weight, None, 1, 1)
    assert found.registers == sections.of("depthwise", rung)["registers"]
