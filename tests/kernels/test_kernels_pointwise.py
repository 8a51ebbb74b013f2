"""pointwise against float64: every rung, in both layouts."""

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import agrees, both_dtypes, draw, f64, on_device, poisoned
from tiers import examples, seldom

from common import cuda, kernels, topology
from common.cuda import layout as layouts

ACTIVATIONS = {None: (-np.inf, np.inf), "relu": (0, np.inf), "relu6": (0, 6), (-0.75, 1.5): (-0.75, 1.5)}


def rungs(*dtypes):
    """Rungs with each layout and dtype that they take; those that the card is too old for are skipped."""
    return [
        pytest.param(
            variant, layout, np.dtype(dtype).type, id=f"{variant}-{layout}-{np.dtype(dtype)}",
            marks=pytest.mark.skipif(
                cuda.backend() == "gpu" and kernels.requires("pointwise", variant) > cuda.compute_capability(),
                reason="the card is too old for it",
            ),
        )
        for dtype in dtypes
        for layout in cuda.LAYOUTS
        for variant in kernels.variants("pointwise", dtype, layout)
    ]  # fmt: skip


names = ("variant", "layout", "dtype")
every_rung_layout_and_dtype = pytest.mark.parametrize(names, rungs(np.float32, np.float16))


@dataclass(frozen=True)
class Case:
    """A 1×1 convolution: shape of x, output channels, and what follows."""

    x: tuple[int, int, int, int]
    out_channels: int
    bias: bool = True
    residual: bool = False
    activation: Any = None

    def __str__(self) -> str:
        n, c, h, w = self.x
        return f"{n}x{c}x{h}x{w}-{self.out_channels}"


def check_pointwise(rng, case, dtype=np.float32, variant=None, layout="NCHW"):
    n, c, h, w = case.x
    x, weight = draw(rng, *case.x, dtype=dtype), draw(rng, case.out_channels, c, 1, 1, dtype=dtype)
    bias = draw(rng, case.out_channels, dtype=dtype) if case.bias else None
    reference = F.conv2d(f64(x), f64(weight), f64(bias))
    residual = draw(rng, *reference.shape, dtype=dtype) if case.residual else None
    if case.residual:
        reference = reference + f64(residual)
    out = cuda.to_layout(poisoned((n, case.out_channels, h, w), dtype), layout)
    result = kernels.pointwise(
        cuda.to_layout(on_device(x), layout), on_device(weight), on_device(bias),
        residual=None if residual is None else cuda.to_layout(on_device(residual), layout),
        activation=case.activation, out=out, variant=variant,
    )  # fmt: skip
    assert result is out
    agrees(out, reference.clamp(*ACTIVATIONS[case.activation]), c, floor=0.5 * math.sqrt(c))  # terms are about 1


@every_rung_layout_and_dtype
@pytest.mark.parametrize(
    "case",
    [
        Case((1, 1, 1, 1), 1),
        Case((1, 7, 7, 7), 17),
        Case((3, 17, 1, 1), 33),
        Case((2, 33, 5, 7), 1),
        Case((1, 8, 17, 13), 16),
        Case((2, 40, 7, 7), 24, residual=True),
        Case((1, 67, 11, 11), 129),
        Case((1, 136, 9, 9), 104, residual=True, activation="relu6"),
        Case((1, 4, 33, 1), 100),
        Case((5, 72, 3, 3), 8),
    ],
    ids=str,
)
def test_pointwise(rng, variant, layout, dtype, case):
    check_pointwise(rng, case, dtype, variant, layout)


@every_rung_layout_and_dtype
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
def test_pointwise_epilogue(rng, variant, layout, dtype, bias, residual, activation):
    """activation(convolution + bias + residual), in that order; rows of whole 16 bytes, and others."""
    for outs in (8, 13):
        case = Case((2, 16, 3, 5), outs, bias=bias, residual=residual, activation=activation)
        check_pointwise(rng, case, dtype, variant, layout)


@st.composite
def cases(draw_value):
    def size(most):
        return draw_value(st.integers(1, most))

    eights = st.sampled_from([8, 16, 24, 40, 72])  # rows that vectors fit into
    return Case(
        (size(3), draw_value(st.one_of(st.integers(1, 70), eights)), size(9), size(9)),
        draw_value(st.one_of(st.integers(1, 70), eights)),
        bias=draw_value(st.booleans()),
        residual=draw_value(st.booleans()),
        activation=draw_value(st.sampled_from(list(ACTIVATIONS))),
    )


@seldom(6)
@settings(max_examples=examples(150))
@given(
    cases(),
    st.sampled_from([rung.values for rung in rungs(np.float32, np.float16) if not rung.marks[0].args[0]]),
    st.integers(0, 2**32 - 1),
)
def test_pointwise_of_any_shape(case, rung, seed):
    variant, layout, dtype = rung
    check_pointwise(np.random.default_rng(seed), case, dtype, variant, layout)


def pointwise_layers():
    """The 1×1 convolutions of MobileNetV2, each once: (C, O, side, residual?, activation)."""
    graph = topology.build()
    clamped = {layer.inputs[0] for layer in graph if isinstance(layer, topology.ReLU6)}
    added = {name for layer in graph if isinstance(layer, topology.ResidualAdd) for name in layer.inputs}
    layers = [layer for layer in graph if isinstance(layer, topology.Conv2d) and layer.kernel_size == (1, 1)]
    return dict.fromkeys(
        Case(
            layer.input_shapes[0], layer.out_channels, residual=layer.output in added,
            activation="relu6" if layer.output in clamped else None,
        )
        for layer in layers
    )  # fmt: skip


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@both_dtypes
@pytest.mark.parametrize("case", pointwise_layers(), ids=str)
def test_pointwise_of_mobilenetv2(rng, case, dtype, layout):
    """By the rung that is chosen for the machine at hand."""
    check_pointwise(rng, case, dtype, layout=layout)


@every_rung_layout_and_dtype
@pytest.mark.parametrize("case", [Case((1, 160, 7, 7), 48), Case((1, 320, 7, 7), 24, residual=True)], ids=str)
def test_pointwise_of_many_channels(rng, variant, layout, dtype, case):
    """Sums that no tile holds at once."""
    check_pointwise(rng, case, dtype, variant, layout)


@every_rung_layout_and_dtype
def test_arrays_that_begin_anywhere(rng, variant, layout, dtype):
    """Each array in turn is a part of another one and begins at no multiple of 16 bytes."""
    shapes = {"x": (2, 16, 3, 5), "weight": (8, 16, 1, 1), "bias": (8,), "residual": (2, 8, 3, 5), "out": (2, 8, 3, 5)}
    given = {name: draw(rng, *shape, dtype=dtype) for name, shape in shapes.items()}
    want = F.conv2d(f64(given["x"]), f64(given["weight"]), f64(given["bias"])) + f64(given["residual"])
    for moved in shapes:
        arrays = {}
        for name, shape in shapes.items():
            stored = np.ascontiguousarray(given[name].transpose(0, 2, 3, 1)) if _in(layout, shape) else given[name]
            whole = cuda.full(stored.size + 1, np.nan, dtype)
            part = whole[1:] if name == moved else whole[:-1]
            part = part.reshape(stored.shape)
            if name != "out":
                part[...] = cuda.asarray(stored)
            arrays[name] = part.transpose(0, 3, 1, 2) if _in(layout, shape) else part
        x, weight = arrays.pop("x"), arrays.pop("weight")
        agrees(kernels.pointwise(x, weight, **arrays, variant=variant), want, 16)


def _in(layout, shape):
    """Whether an array of that shape is put into NHWC: the images, not the weights."""
    return layout == "NHWC" and len(shape) == 4 and shape[2:] != (1, 1)


@every_rung_layout_and_dtype
def test_a_nan_stays_where_it_belongs(rng, variant, layout, dtype):
    """In the outputs of its pixel, through the activation; a NaN in the weights in the pixels of its output."""
    x, weight = draw(rng, 1, 24, 5, 5, dtype=dtype), draw(rng, 16, 24, 1, 1, dtype=dtype)
    x[0, 17, 2, 3], weight[5, 11] = np.nan, np.nan
    out = cuda.to_layout(poisoned((1, 16, 5, 5), dtype), layout)
    kernels.pointwise(
        cuda.to_layout(on_device(x), layout), on_device(weight), activation="relu6", out=out, variant=variant
    )
    want = np.zeros((1, 16, 5, 5), bool)
    want[0, :, 2, 3] = want[0, 5] = True
    np.testing.assert_array_equal(np.isnan(cuda.asnumpy(out)), want)


@pytest.mark.parametrize(names, rungs(np.float16))
def test_float16_is_summed_in_float32(variant, layout, dtype):
    """4,001 ones: a sum in float16 would stop at 2,048."""
    x, weight = np.ones((1, 4001, 1, 1), dtype), np.ones((1, 4001, 1, 1), dtype)
    out = kernels.pointwise(on_device(x), on_device(weight), out=poisoned((1, 1, 1, 1), dtype), variant=variant)
    assert abs(cuda.asnumpy(out).item() - 4001) <= 1  # 4,001 is not a float16


@every_rung_layout_and_dtype
@pytest.mark.parametrize("case", [Case((1, 3, 1, 1), 450), Case((1, 3, 1, 450), 1)], ids=str)
def test_more_tiles_than_a_grid_has_rows(rng, monkeypatch, variant, layout, dtype, case):
    """A grid has 65,535 rows, and goes on in its third dimension; here it has 2."""
    monkeypatch.setattr(sys.modules["common.kernels.pointwise"], "GRID_ROWS", 2)
    check_pointwise(rng, case, dtype, variant, layout)


def test_the_result_lies_as_x_does(rng):
    x, weight = on_device(draw(rng, 2, 6, 5, 3)), on_device(draw(rng, 4, 6, 1, 1))
    for layout in cuda.LAYOUTS:
        placed = cuda.to_layout(x, layout)
        for activation in (None, "relu6"):
            assert layouts.has(kernels.pointwise(placed, weight, activation=activation), layout)
    gray = on_device(draw(rng, 2, 1, 5, 3))  # one channel lies in both layouts: NCHW, as others understand it
    assert layouts.has(kernels.pointwise(gray, weight[:, :1].copy()), "NCHW")


def test_layouts_are_not_mixed(rng):
    x, weight = on_device(draw(rng, 2, 6, 5, 3)), on_device(draw(rng, 6, 6, 1, 1))
    with pytest.raises(ValueError, match=r"all arrays must be NCHW, or all NHWC .*residual"):
        kernels.pointwise(x, weight, residual=cuda.to_layout(x, "NHWC"))
    with pytest.raises(ValueError, match=r"variant 'tiled' takes layout NCHW, got NHWC"):
        kernels.pointwise(cuda.to_layout(x, "NHWC"), weight, variant="tiled")
    with pytest.raises(ValueError, match=r"variant 'split_k' takes layout NHWC, got NCHW"):
        kernels.pointwise(x, weight, variant="split_k")


def ones(*shape, dtype=np.float32):
    return cuda.full(shape, 1, dtype)


WRONG = [  # what is changed, the error, the words it must have: argument, expected, got
    ({"x": ones(6, 5, 3)}, ValueError, "x", "(any, any, any, any)", "(6, 5, 3)"),
    ({"x": ones(2, 6, 5, 3, dtype=np.int32)}, TypeError, "x", "float32 or float16", "int32"),
    ({"x": ones(2, 6, 5, 9)[..., ::3]}, ValueError, "x", "dense in NCHW or NHWC", "strides"),
    ({"weight": ones(4, 6)}, ValueError, "weight", "(any, 6, 1, 1)", "(4, 6)"),
    ({"weight": ones(4, 6, 3, 3)}, ValueError, "weight", "(any, 6, 1, 1)", "(4, 6, 3, 3)"),
    ({"weight": ones(4, 6, 1, 1, dtype=np.float16)}, TypeError, "weight", "float32", "float16"),
    ({"bias": ones(6)}, ValueError, "bias", "(4)", "(6,)"),
    ({"residual": ones(2, 6, 5, 3)}, ValueError, "residual", "(2, 4, 5, 3)", "(2, 6, 5, 3)"),
    ({"activation": "gelu"}, ValueError, "activation", "'relu6'", "'gelu'"),
    ({"out": ones(2, 6, 5, 3)}, ValueError, "out", "(2, 4, 5, 3)", "(2, 6, 5, 3)"),
    ({"out": ones(2, 4, 5, 3, dtype=np.float16)}, TypeError, "out", "float32", "float16"),
    ({"variant": "fastest"}, ValueError, "variant", "naive", "'fastest'"),
]


@pytest.mark.parametrize(
    ("changed", "error", "name", "expected", "got"), WRONG, ids=[f"{next(iter(w[0]))}-{i}" for i, w in enumerate(WRONG)]
)
def test_wrong_arguments(changed, error, name, expected, got):
    valid = {"x": ones(2, 6, 5, 3), "weight": ones(4, 6, 1, 1), "bias": ones(4)}
    assert np.isfinite(cuda.asnumpy(kernels.pointwise(**valid))).all()
    with pytest.raises(error) as caught:
        kernels.pointwise(**(valid | changed))
    message = str(caught.value)
    assert name in message.split(" must ")[0] and expected in message and got in message


def test_long_rows_go_to_the_rung_that_takes_them(rng):
    """No shared memory holds 4,000 channels of 16 outputs and of the pixels: streaming hands them over."""
    check_pointwise(rng, Case((1, 4000, 3, 3), 16), np.float32, "streaming", "NHWC")


@pytest.mark.parametrize(names, rungs(np.float32))
def test_sums_do_not_drift(rng, variant, layout, dtype):
    """Tensor cores cut their sums off: left to them, 960 products err by 1e-5, and a network by more than it may."""
    x, weight = draw(rng, 1, 960, 7, 7, dtype=dtype), draw(rng, 32, 960, 1, 1, dtype=dtype)
    out = kernels.pointwise(
        cuda.to_layout(on_device(x), layout), cuda.to_layout(on_device(weight), layout), variant=variant
    )
    want = F.conv2d(f64(x), f64(weight)).numpy()
    assert np.linalg.norm(cuda.asnumpy(out) - want) <= 1.5e-6 * np.linalg.norm(want)
