"""depthwise_backward_input and depthwise_backward_weight against the gradients of torch's conv2d in float64."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, draw, every_rung, f64, poisoned
from tiers import examples, seldom

from common import cuda, kernels, topology
from common.kernels import depthwise_gradients
from common.kernels.depthwise_backward_input import tile
from common.kernels.depthwise_backward_weight import tiling

LAYOUTS = ("NCHW", "NHWC")
OPERATORS = ("depthwise_backward_input", "depthwise_backward_weight")


@dataclass(frozen=True)
class Case:
    """A depthwise convolution: shape of x, and torch's parameters, padding as ((top, bottom), (left, right))."""

    x: tuple[int, int, int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1))
    dilation: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.x))}-k{self.kernel}-s{self.stride}-p{self.padding}-d{self.dilation}"

    @property
    def geometry(self):
        return self.stride, self.padding, self.dilation

    def reference(self, x, weight, grad=None):
        """(y, dx, dw) in float64; grad None for one of ones."""
        x, weight = f64(x).requires_grad_(), f64(weight).requires_grad_()
        (top, bottom), (left, right) = self.padding
        padded = F.pad(x, (left, right, top, bottom))
        y = F.conv2d(padded, weight, None, self.stride, 0, self.dilation, self.x[1])
        y.backward(torch.ones_like(y) if grad is None else f64(grad))
        return y.detach(), x.grad, weight.grad


def arrays(rng, case, dtype):
    """x, weight and grad of a case; NumPy."""
    x, weight = draw(rng, *case.x, dtype=dtype), draw(rng, case.x[1], 1, *case.kernel, dtype=dtype)
    return x, weight, draw(rng, *case.reference(x, weight)[0].shape, dtype=dtype)


def check(rng, operator, case, dtype, where, variant=None, accumulate=False):
    x, weight, grad = arrays(rng, case, dtype)
    _, dx, dw = case.reference(x, weight, grad)
    grad_here = cuda.to_layout(cuda.asarray(grad), where)
    if operator == "depthwise_backward_input":
        reference, others, layout = dx, (cuda.asarray(weight), case.x), where
        terms = math.prod(case.kernel)
    else:
        reference, others, layout = dw, (cuda.to_layout(cuda.asarray(x), where), case.kernel), "NCHW"
        terms = math.prod(grad.shape) // case.x[1]
    before = draw(rng, *reference.shape, dtype=dtype)
    out = cuda.asarray(before) if accumulate else poisoned(tuple(reference.shape), dtype)
    out = cuda.to_layout(out, layout)
    result = getattr(kernels, operator)(
        grad_here, *others, *case.geometry, accumulate=accumulate, out=out, variant=variant
    )
    assert result is out
    agrees(out, reference + f64(before) if accumulate else reference, terms, floor=0.1 * math.sqrt(terms))


GEOMETRIES = [
    Case((1, 1, 1, 1), (1, 1), padding=((0, 0), (0, 0))),
    Case((2, 3, 7, 7)),
    Case((2, 8, 17, 13), stride=(2, 2)),
    Case((1, 5, 33, 9), (5, 5), padding=((2, 2), (2, 2))),
    Case((3, 4, 11, 10), (7, 7), (2, 2), ((3, 3), (3, 3))),
    Case((1, 6, 17, 19), (3, 5), (2, 3), ((1, 0), (2, 4)), (2, 1)),
    Case((2, 2, 13, 11), (2, 4), (1, 2), ((3, 0), (1, 4)), (3, 2)),
    Case((1, 4, 9, 8), (2, 2), (3, 3), ((0, 0), (0, 0))),
    Case((2, 3, 3, 2), (1, 1), (1, 2), ((3, 2), (0, 5))),
    Case((1, 4, 5, 6), (6, 6), (1, 1), ((3, 2), (2, 3))),
]


def runs(operator):
    """(case, rung, dtype, layout): float32 for all cases, half and double precision for some."""
    return [
        pytest.param(operator, case, variant, np.dtype(dtype).type, where, id=f"{case}-{variant}-{dtype}-{where}")
        for dtype, cases in (("float32", GEOMETRIES), ("float16", GEOMETRIES[:4]), ("float64", GEOMETRIES[5:6]))
        for case in cases
        for where in LAYOUTS
        for variant in kernels.variants(operator, dtype, where)
    ]


@pytest.mark.parametrize(("operator", "case", "variant", "dtype", "where"), runs(OPERATORS[0]) + runs(OPERATORS[1]))
def test_gradients(rng, operator, case, variant, dtype, where):
    check(rng, operator, case, dtype, where, variant)


@pytest.mark.parametrize(
    ("operator", "variant"), [(o, v) for o in OPERATORS for v in kernels.variants(o, np.float16, "NHWC")]
)
def test_a_line_of_halves_is_more_channels_than_a_warp_has_lanes(rng, operator, variant):
    check(rng, operator, Case((1, 128, 5, 4)), np.float16, "NHWC", variant)


@pytest.mark.parametrize(
    ("operator", "variant"), [(operator, v) for operator in OPERATORS for v in kernels.variants(operator)]
)
def test_accumulate_adds_to_what_is_there(rng, operator, variant):
    for where in LAYOUTS:
        if variant in kernels.variants(operator, layout=where):
            check(rng, operator, GEOMETRIES[1], np.float32, where, variant, accumulate=True)
            check(rng, operator, GEOMETRIES[2], np.float32, where, variant, accumulate=True)


@st.composite
def cases(draw_value):
    """Any size, with one of few geometries: what rungs are compiled for."""
    known = draw_value(st.sampled_from(GEOMETRIES))
    sizes = draw_value(st.tuples(*[st.integers(1, 20)] * 2))
    n, c = draw_value(st.integers(1, 5)), draw_value(st.sampled_from([1, 2, 3, 4, 8, 12, 20]))
    for size, k, pads, d in zip(sizes, known.kernel, known.padding, known.dilation, strict=True):
        assume(size + sum(pads) > d * (k - 1))
    return Case((n, c, *sizes), *[getattr(known, name) for name in ("kernel", "stride", "padding", "dilation")])


@seldom(6)
@settings(max_examples=examples(120))
@given(st.data(), cases(), st.sampled_from(OPERATORS), st.sampled_from(LAYOUTS), st.integers(0, 2**32 - 1))
def test_gradients_of_any_shape(data, case, operator, where, seed):
    variant = data.draw(st.sampled_from(kernels.variants(operator, "float32", where)))
    check(np.random.default_rng(seed), operator, case, np.float32, where, variant)


@settings(max_examples=examples(80))
@given(st.data(), cases(), st.sampled_from(OPERATORS), st.integers(0, 2**32 - 1))
def test_gradients_of_any_geometry(data, case, operator, seed):
    """Kernels, strides and paddings that nobody thought of, on the rungs that need no compilation for each."""

    def pair(low, high):
        return data.draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    changed = Case(case.x, pair(1, 7), pair(1, 4), (pair(0, 4), pair(0, 4)), pair(1, 3))
    for size, k, pads, d in zip(case.x[2:], changed.kernel, changed.padding, changed.dilation, strict=True):
        assume(size + sum(pads) > d * (k - 1))
    variants = [v for v in kernels.variants(operator) if v in ("naive", "atomics", "block_reduction")]
    variant = data.draw(st.sampled_from(variants))
    check(np.random.default_rng(seed), operator, changed, np.float32, data.draw(st.sampled_from(LAYOUTS)), variant)


MOBILENETV2 = list(
    dict.fromkeys(
        Case(layer.input_shapes[0], layer.kernel_size, layer.stride, layer.padding)
        for layer in topology.build()
        if isinstance(layer, topology.Conv2d) and layer.groups > 1
    )
)


def test_mobilenetv2_has_ten_kinds_of_depthwise_layers():
    assert len(MOBILENETV2) == 10


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("case", MOBILENETV2, ids=str)
def test_gradients_in_mobilenetv2(rng, operator, case):
    check(rng, operator, case, np.float32, "NCHW")


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("case", [c for c in MOBILENETV2 if c.x[3] < 28], ids=str)
def test_gradients_in_mobilenetv2_with_vectors(rng, operator, case):
    check(rng, operator, case, np.float32, "NHWC", "vectors")


# ---- Sums that several blocks share


@seldom(6)
def test_the_parts_of_a_sum_are_added_whatever_their_number(rng, monkeypatch):
    """As many blocks as the card holds: here as if it had 1, 3 or 40 multiprocessors."""
    for multiprocessors in (1, 3, 40):
        monkeypatch.setattr(cuda, "multiprocessors", lambda m=multiprocessors: m)
        for where, variant in (("NCHW", "tiles"), ("NHWC", "tiles"), ("NHWC", "vectors")):
            check(rng, OPERATORS[1], Case((40, 5, 7, 7)), np.float32, where, variant)
            check(rng, OPERATORS[1], Case((40, 8, 7, 7)), np.float32, where, variant, accumulate=True)


@pytest.mark.parametrize("variant", [v for v in kernels.variants(OPERATORS[1]) if v != "atomics"])
def test_the_gradient_to_the_weight_is_the_same_every_time(rng, variant):
    """To the last bit: no rung but the one with atomics leaves the order of additions to chance."""
    where = "NHWC" if variant == "vectors" else "NCHW"
    x, _, grad = arrays(rng, Case((9, 8, 17, 11)), np.float32)
    x, grad = (cuda.to_layout(cuda.asarray(a), where) for a in (x, grad))
    results = [
        cuda.asnumpy(kernels.depthwise_backward_weight(grad, x, 3, 1, 1, variant=variant)).tobytes() for _ in range(5)
    ]
    assert len(set(results)) == 1


def test_halves_are_summed_in_float32(rng):
    """100,000 products of 1: a sum of halves would stop at 2,048."""
    ones = cuda.full((10, 1, 100, 100), 1, np.float16)
    for variant in kernels.variants(OPERATORS[1], np.float16, "NCHW"):
        out = kernels.depthwise_backward_weight(ones / 16, ones / 16, 1, variant=variant)
        assert float(out[0, 0, 0, 0]) == pytest.approx(100_000 / 256, rel=1e-3)


# ---- Not a number


@pytest.mark.parametrize(
    ("variant", "where"), [(v, where) for where in LAYOUTS for v in kernels.variants(OPERATORS[0], layout=where)]
)
def test_a_nan_in_grad_reaches_the_pixels_that_this_output_read(variant, where):
    grad = np.ones((2, 4, 3, 3), np.float32)
    grad[1, 2, 0, 1] = np.nan
    out = kernels.depthwise_backward_input(
        cuda.to_layout(cuda.asarray(grad), where), cuda.full((4, 1, 3, 3), 1), (2, 4, 6, 6), 2, 1, variant=variant
    )
    expected = np.zeros((2, 4, 6, 6), bool)
    expected[1, 2, 0:2, 1:4] = True
    np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), expected)


@every_rung("depthwise_backward_weight")
@pytest.mark.parametrize("of", ["grad", "x"])
def test_a_nan_reaches_the_taps_that_read_it_and_no_other_channel(variant, of):
    where = "NHWC" if variant == "vectors" else "NCHW"
    grad, x = (np.ones((2, 4, 6, 6), np.float32) for _ in range(2))
    {"grad": grad, "x": x}[of][1, 2, 0, 5] = np.nan
    out = kernels.depthwise_backward_weight(
        cuda.to_layout(cuda.asarray(grad), where), cuda.to_layout(cuda.asarray(x), where), 3, 1, 1, variant=variant
    )
    found = np.isnan(cuda.asnumpy(out))[:, 0]
    read = [(kh, kw) for kh in range(3) for kw in range(3) if _meet(kh, kw, of)]
    assert all(found[2][tap] for tap in read)
    assert not found[[0, 1, 3]].any()


def _meet(kh, kw, of):
    """Whether tap (kh, kw) multiplies the grad, or the x, at (0, 5) with something inside the 6 × 6 image."""
    sign = 1 if of == "grad" else -1
    return sign * (kh - 1) >= 0 and 5 + sign * (kw - 1) <= 5


# ---- Arrays as they come


@pytest.mark.parametrize("operator", OPERATORS)
def test_arrays_may_start_anywhere(rng, operator):
    """Where 16 bytes at once would not be aligned, fewer are taken."""
    case = Case((2, 8, 7, 5))
    x, weight, grad = arrays(rng, case, np.float32)
    _, dx, dw = case.reference(x, weight, grad)

    def shifted(array):
        n, c, h, w = array.shape
        flat = cuda.full(array.size + 1, np.nan)
        flat[1:] = cuda.asarray(array.transpose(0, 2, 3, 1)).ravel()
        return flat[1:].reshape(n, h, w, c).transpose(0, 3, 1, 2)

    if operator == "depthwise_backward_input":
        out = kernels.depthwise_backward_input(
            shifted(grad), cuda.asarray(weight), case.x, *case.geometry, variant="vectors"
        )
        agrees(out, dx, 9)
    else:
        out = kernels.depthwise_backward_weight(shifted(grad), shifted(x), 3, *case.geometry, variant="vectors")
        agrees(out, dw, 70)


@pytest.mark.parametrize("channels", [1, 4])
def test_a_single_pixel_lies_in_either_layout(rng, channels):
    for operator in OPERATORS:
        for variant in kernels.variants(operator):
            check(rng, operator, Case((3, channels, 1, 1)), np.float32, "NHWC", variant)


@seldom(6)
def test_more_channels_than_a_grid_is_high(rng):
    case = Case((1, 65_537, 1, 2), (1, 2), padding=((0, 0), (0, 0)))
    check(rng, OPERATORS[0], case, np.float32, "NCHW", "tiles")
    for operator in OPERATORS:
        check(rng, operator, case, np.float32, "NHWC", "tiles")


def test_threads_along_the_channels():
    """A line of 128 bytes, no more threads than vectors, and half as many where that leaves fewer over."""
    side = {
        (c, each, itemsize): depthwise_gradients.channel_threads("NHWC", c, each, itemsize)
        for c, each, itemsize in [(32, 4, 4), (144, 4, 4), (960, 8, 2), (5, 1, 4), (1, 1, 4), (70_001, 1, 4)]
    }
    assert side == {
        (32, 4, 4): (8, 1), (144, 4, 4): (4, 9), (960, 8, 2): (8, 15), (5, 1, 4): (8, 1), (1, 1, 4): (1, 1),
        (70_001, 1, 4): (32, 2188),
    }  # fmt: skip
    assert depthwise_gradients.channel_threads("NCHW", 7, 1, 4) == (1, 7)


# ---- What does not fit


def ones(*shape, dtype=np.float32):
    return cuda.full(shape, 1, dtype)


def backward_input(**changed):
    """A valid call, but for what is changed."""
    arguments = {"grad": ones(2, 6, 4, 3), "weight": ones(6, 1, 3, 3), "input_shape": (2, 6, 7, 5), "stride": 2}
    return kernels.depthwise_backward_input(**(arguments | {"padding": 1} | changed))


def backward_weight(**changed):
    arguments = {"grad": ones(2, 6, 4, 3), "x": ones(2, 6, 7, 5), "kernel_size": 3, "stride": 2, "padding": 1}
    return kernels.depthwise_backward_weight(**(arguments | changed))


WRONG = [
    (backward_input, {"grad": ones(2, 6, 4)}, ValueError, "grad must", "(any, any, any, any)", "(2, 6, 4)"),
    (backward_input, {"grad": ones(2, 6, 4, 4)}, ValueError, "grad must", "(2, 6, 4, 3)", "(2, 6, 4, 4)"),
    (backward_input, {"grad": ones(2, 6, 4, 3, dtype=np.int32)}, TypeError, "grad must", "float64", "int32"),
    (backward_input, {"grad": ones(3, 4, 6, 2).T}, ValueError, "grad must", "dense", "strides"),
    (backward_input, {"grad": None}, TypeError, "grad must", "array", "NoneType"),
    (backward_input, {"weight": ones(6, 2, 3, 3)}, ValueError, "weight must", "(6, 1, any, any)", "(6, 2, 3, 3)"),
    (backward_input, {"weight": ones(12, 1, 3, 3)}, ValueError, "weight must", "(6, 1, any, any)", "(12, 1, 3, 3)"),
    (backward_input, {"weight": ones(6, 1, 3, 3, dtype=np.float16)}, TypeError, "weight must", "float32", "float16"),
    (backward_input, {"input_shape": (2, 6, 7)}, ValueError, "input_shape must", "4 integers", "(2, 6, 7)"),
    (backward_input, {"input_shape": (2, 6, 7, 0)}, ValueError, "input_shape must", "at least 1", "(2, 6, 7, 0)"),
    (backward_input, {"input_shape": 7}, ValueError, "input_shape must", "4 integers", "7"),
    (backward_input, {"input_shape": (2, 6, 9, 5)}, ValueError, "grad must", "(2, 6, 5, 3)", "(2, 6, 4, 3)"),
    (backward_input, {"stride": 0}, ValueError, "stride must", "at least 1", "0"),
    (backward_input, {"accumulate": True}, ValueError, "out must", "accumulate", "None"),
    (backward_input, {"out": ones(2, 6, 7, 6)}, ValueError, "out must", "(2, 6, 7, 5)", "(2, 6, 7, 6)"),
    (backward_input, {"variant": "vectors"}, ValueError, "'vectors' takes", "NHWC", "NCHW"),
    (backward_input, {"variant": "atomics"}, ValueError, "variant must", "naive", "'atomics'"),
    (backward_weight, {"x": ones(2, 5, 7, 5)}, ValueError, "grad must", "(2, 5, 4, 3)", "(2, 6, 4, 3)"),
    (backward_weight, {"x": ones(2, 6, 7, 5, dtype=np.float16)}, TypeError, "x must", "float32", "float16"),
    (backward_weight, {"kernel_size": 0}, ValueError, "kernel_size must", "at least 1", "0"),
    (backward_weight, {"kernel_size": (3, 8)}, ValueError, "kernel reaches", "8 pixels", "7"),
    (backward_weight, {"kernel_size": 4}, ValueError, "grad must", "(2, 6, 3, 2)", "(2, 6, 4, 3)"),
    (backward_weight, {"dilation": -1}, ValueError, "dilation must", "at least 1", "-1"),
    (backward_weight, {"accumulate": True}, ValueError, "out must", "accumulate", "None"),
    (backward_weight, {"out": ones(6, 3, 3)}, ValueError, "out must", "(6, 1, 3, 3)", "(6, 3, 3)"),
]


@pytest.mark.parametrize(
    ("call", "changed", "error", "name", "expected", "got"),
    WRONG,
    ids=[f"{call.__name__}-{next(iter(changed))}-{i}" for i, (call, changed, *_) in enumerate(WRONG)],
)
def test_wrong_arguments(call, changed, error, name, expected, got):
    with pytest.raises(error) as caught:
        call(**changed)
    message = str(caught.value)
    assert name in message and expected in message and got in message


def test_halves_are_not_summed_with_atomics():
    half = {name: ones(*shape, dtype=np.float16) for name, shape in (("grad", (2, 6, 4, 3)), ("x", (2, 6, 7, 5)))}
    with pytest.raises(ValueError, match="'atomics' takes dtype float32 or float64, got float16"):
        backward_weight(**half, variant="atomics")


def test_arrays_of_different_layouts_are_refused():
    grad = cuda.to_layout(ones(2, 6, 4, 3), "NHWC")
    with pytest.raises(ValueError, match="all arrays must be NCHW, or all NHWC"):
        backward_weight(grad=grad)
    with pytest.raises(ValueError, match="all arrays must be NCHW, or all NHWC"):
        backward_input(grad=grad, out=ones(2, 6, 7, 5))


def test_the_calls_above_are_right_but_for_their_change():
    assert np.isfinite(cuda.asnumpy(backward_input())).all() and np.isfinite(cuda.asnumpy(backward_weight())).all()


# ---- Tiles


@pytest.mark.parametrize("where", LAYOUTS)
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 1)], ids=str)
def test_tiles_of_pixels_begin_with_a_phase_and_divide_an_image_evenly(where, stride):
    for h, w in itertools.product((1, 7, 14, 17, 28, 33, 56, 112, 500), repeat=2):
        th, tw = tile(where, h, w, stride)
        assert th % stride[0] == 0 and tw % stride[1] == 0
        assert th <= 14 + stride[0] and tw <= 2 * max(stride)
        rows = -(-h // th)  # of tiles; the last of them overhangs by less than a row for each tile, and a phase
        assert rows * th - h < rows + stride[0] * rows


def test_sums_fit_into_shared_memory(monkeypatch):
    """48 KB, whatever the kernel's size, the type and the channels; a warp's shuffles; no part is without a tile."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    for taps, dtype, c, where in itertools.product((1, 9, 25, 49, 961), ("f2", "f4", "f8"), (1, 3, 128, 960), LAYOUTS):
        for is_vectors in {False, where == "NHWC" and dtype != "f8"}:
            widest = math.gcd(16, c * np.dtype(dtype).itemsize) // np.dtype(dtype).itemsize
            t = tiling(is_vectors, where, (2, c, 28, 30), (2, c, 28, 30), taps, dtype, widest)
            summed = max(4, np.dtype(dtype).itemsize)
            assert t.threads // 32 * taps * t.vector * t.lanes * summed <= 48 * 1024
            assert t.lanes <= 32, "those of a channel would be in different warps"
            assert c % t.vector == 0 and t.lanes * t.slices * t.vector >= c
            assert t.parts == 1 or (t.parts - 1) * (t.threads // t.lanes) < 2 * -(-28 // t.th) * -(-30 // t.tw)


def test_many_taps_and_many_channels(rng):
    """Sums of 49 taps: fewer channels side by side, so that they fit."""
    case = Case((1, 40, 8, 9), (7, 7), padding=((3, 3), (3, 3)))
    for operator in OPERATORS:
        for variant in ("tiles", "vectors"):
            check(rng, operator, case, np.float32, "NHWC", variant)
