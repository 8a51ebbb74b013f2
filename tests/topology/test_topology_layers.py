"""Shape rules, counts and listing of single layers and small graphs."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from common import topology as t


def conv(shape=(1, 3, 9, 8), **changes):
    fields = {
        "in_channels": 3,
        "out_channels": 4,
        "kernel_size": (3, 3),
        "weight": "w",
        "bias": "b",
        "name": "conv",
        "inputs": ("x",),
        "output": "y",
        "input_shapes": (shape,),
    }
    return t.Conv2d(**(fields | changes))


def layer(kind, *shapes, **fields):
    names = tuple(f"x{i}" for i in range(len(shapes)))
    return kind(name=kind.__name__, inputs=names, output="y", input_shapes=shapes, **fields)


small = st.integers(1, 4)


@settings(max_examples=150)
@given(
    extent=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    kernel=st.tuples(small, small),
    stride=st.tuples(small, small),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=st.tuples(small, small),
)
def test_convolution_shapes_are_those_of_torch(extent, kernel, stride, pads, dilation):
    top, bottom, left, right = pads
    padded = F.pad(torch.zeros(1, 1, *extent), (left, right, top, bottom))
    arguments = {
        "in_channels": 1,
        "out_channels": 1,
        "kernel_size": kernel,
        "stride": stride,
        "padding": ((top, bottom), (left, right)),
        "dilation": dilation,
    }
    if any(size < d * (k - 1) + 1 for size, d, k in zip(padded.shape[2:], dilation, kernel, strict=True)):
        with pytest.raises(ValueError, match="does not fit"):
            conv((1, 1, *extent), **arguments)
        return
    expected = F.conv2d(padded, torch.zeros(1, 1, *kernel), None, stride, 0, dilation).shape
    made = conv((1, 1, *extent), **arguments)
    assert made.output_shape == tuple(expected)
    assert made.macs == math.prod(expected) * math.prod(kernel)


@settings(max_examples=150)
@given(
    extent=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    kernel=st.tuples(small, small),
    stride=st.tuples(small, small),
    pad=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    ceil_mode=st.booleans(),
)
def test_pooling_shapes_are_those_of_torch(extent, kernel, stride, pad, ceil_mode):
    assume(all(2 * p <= k for p, k in zip(pad, kernel, strict=True)))  # torch's own limit
    assume(all(e + 2 * p >= k for e, p, k in zip(extent, pad, kernel, strict=True)))
    expected = F.max_pool2d(torch.zeros(1, 1, *extent), kernel, stride, pad, ceil_mode=ceil_mode).shape
    padding = ((pad[0], pad[0]), (pad[1], pad[1]))
    for kind in (t.MaxPool2d, t.AveragePool2d):
        made = layer(kind, (1, 1, *extent), kernel_size=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode)
        assert made.output_shape == tuple(expected)


ACROSS = {"in_channels": 6, "out_channels": 4, "kernel_size": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1)),
          "output_padding": (1, 1), "groups": 2, "weight": "w", "bias": "b"}  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [
        (3, 1, 0, 0, 1, 1),
        (2, 2, 0, 0, 1, 1),
        ((3, 4), (2, 3), (1, 0), (1, 2), 3, (2, 1)),
    ],
    ids=str,
)
def test_the_shape_of_a_transposed_convolution_is_that_of_torch(how):
    k, stride, pads, more, groups, dilation = how
    module = torch.nn.ConvTranspose2d(6, 9, k, stride, pads, more, groups, dilation=dilation)
    want = tuple(module(torch.zeros(2, 6, 5, 7)).shape)
    top, left = module.padding
    made = layer(
        t.ConvTranspose2d, (2, 6, 5, 7), in_channels=6, out_channels=9, kernel_size=module.kernel_size,
        stride=module.stride, padding=((top, top), (left, left)), output_padding=module.output_padding,
        dilation=module.dilation, groups=groups, weight="w", bias="b",
    )  # fmt: skip
    assert made.output_shape == want
    assert made.parameter_shapes == {"w": tuple(module.weight.shape), "b": (9,)}
    assert made.macs == 2 * 6 * 5 * 7 * module.weight[0].numel()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (conv(), "Conv2d(3, 4, 3, 1, 0, 1)"),
        (conv(stride=(2, 2), padding=((1, 1), (1, 1))), "Conv2d(3, 4, 3, 2, 1, 1)"),
        (conv(groups=3, out_channels=6), "Conv2d(3, 6, 3, 1, 0, 3)"),
        (conv(kernel_size=(1, 3), stride=(2, 1)), "Conv2d(3, 4, (1, 3), (2, 1), 0, 1)"),
        (conv(padding=((0, 0), (1, 1))), "Conv2d(3, 4, 3, 1, (0, 1), 1)"),
        (conv(padding=((0, 1), (0, 1))), "Conv2d(3, 4, 3, 1, ((0, 1), (0, 1)), 1)"),
        (conv(dilation=(2, 2)), "Conv2d(3, 4, 3, 1, 0, 1, dilation=2)"),
        (layer(t.ReLU6, (1, 5)), "ReLU6"),
        (layer(t.Clip, (1, 5), min=-1.0), "Clip(-1, inf)"),
        (layer(t.ResidualAdd, (1, 5), (1, 5)), "ResidualAdd(x0, x1)"),
        (layer(t.Linear, (1, 5, 2, 1), in_features=10, out_features=3, weight="w"), "Linear(10, 3)"),
        (layer(t.Concat, (1, 5), (1, 2)), "Concat(x0, x1, dim=1)"),
        (
            layer(t.MaxPool2d, (1, 1, 5, 5), kernel_size=(3, 3), ceil_mode=True),
            "MaxPool2d(3, 1, 0, ceil_mode)",
        ),
        (layer(t.Pad, (1, 1, 5, 5), padding=((0, 1), (0, 1))), "Pad(((0, 1), (0, 1)), value=0)"),
        (layer(t.Permute, (1, 2, 3), dims=(0, 2, 1)), "Permute(0, 2, 1)"),
        (layer(t.Reshape, (1, 6), shape=(2, 3)), "Reshape(2, 3)"),
        (layer(t.LeakyReLU, (1, 5)), "LeakyReLU(0.01)"),
        (layer(t.Resize, (1, 3, 5, 4), size=(10, 8)), "Resize((10, 8), linear, half_pixel)"),
        (
            layer(t.Resize, (1, 3, 5, 5), size=(9, 9), mode="nearest", coordinates="asymmetric", rounding="ceil"),
            "Resize(9, nearest, asymmetric, ceil)",
        ),
        (layer(t.ConvTranspose2d, (1, 6, 5, 4), **ACROSS), "ConvTranspose2d(6, 4, 3, 2, 1, 2, output_padding=1)"),
        (layer(t.LayerNorm, (1, 6, 5, 4)), "LayerNorm(6)"),
        (layer(t.LayerNorm, (1, 6, 5, 4), dim=3), "LayerNorm(4, dim=3)"),
        (layer(t.GroupNorm, (1, 6, 5, 4), num_groups=3), "GroupNorm(3, 6)"),
        (layer(t.Mean, (1, 6, 5, 4)), "Mean(dim=1)"),
        (layer(t.ELU, (1, 5), alpha=0.3), "ELU(0.3)"),
        (layer(t.GELU, (1, 5)), "GELU"),
        (layer(t.GELU, (1, 5), approximate="tanh"), "GELU(tanh)"),
        (layer(t.Sub, (1, 5), (1, 1)), "Sub(x0, x1)"),
        (layer(t.ChannelShuffle, (1, 6, 5, 5), groups=3), "ChannelShuffle(3)"),
        (
            layer(t.Slice, (1, 6, 5, 7), starts=(2, 0, 6), sizes=(4, 5, 3), steps=(1, 1, -3)),
            "Slice(2:6, :, 6::-3)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text(made, text):
    assert str(made) == text


def test_counts():
    made = conv((2, 3, 9, 8))
    assert made.output_shape == (2, 4, 7, 6)
    assert made.macs == 2 * 4 * 7 * 6 * 3 * 9
    assert made.params == 4 * 3 * 9 + 4
    assert made.activation_bytes() == 4 * (2 * 3 * 9 * 8 + 2 * 4 * 7 * 6)
    assert made.activation_bytes(2) * 2 == made.activation_bytes()
    assert made.weight_bytes(2) == 2 * made.params
    norm = layer(t.BatchNorm2d, (1, 7, 2, 2), num_features=7, weight="w", bias="b", running_mean="m", running_var="v")
    assert (norm.params, norm.weight_bytes()) == (14, 112)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: conv((1, 4, 9, 8)), "4 channels, the weight is for 3"),
        (lambda: conv((3, 9, 8)), "is not \\(N, C, H, W\\)"),
        (lambda: conv(groups=2), "2 groups do not divide"),
        (lambda: conv(groups=0), "0 groups do not divide"),
        (lambda: conv(stride=(0, 1)), "stride 0 is not between 1"),
        (lambda: conv(dilation=(1, 2**20)), "dilation 1048576 is not between"),
        (lambda: conv(padding=((0, -1), (0, 0))), "padding -1 is not between 0"),
        (lambda: conv(kernel_size=(10, 1)), "does not fit into 9"),
        (lambda: conv((2**20, 3, 100, 100)), "over 2147483647 elements"),
        (lambda: conv((0, 3, 9, 8)), "empty shape"),
        (lambda: layer(t.ResidualAdd, (1, 3), (1, 4)), "differ"),
        (lambda: layer(t.ResidualAdd, (1, 3)), "got 1 inputs"),
        (lambda: layer(t.Mul, (1, 3), (1, 4)), "do not fit"),
        (lambda: layer(t.Mul, (1, 3), (2, 3)), "do not fit"),
        (lambda: layer(t.Concat, (1, 3, 4), (1, 3, 5)), "differ outside dimension 1"),
        (lambda: layer(t.Concat, (1, 3), (1, 3), dim=0), "not one after the batch"),
        (lambda: layer(t.Softmax, (1, 3), dim=2), "not one after the batch"),
        (lambda: layer(t.Clip, (1, 3), min=1.0, max=0.0), "not in order"),
        (lambda: layer(t.Clip, (1, 3), min=math.nan), "not in order"),
        (lambda: layer(t.Linear, (1, 3, 2), in_features=5, out_features=1, weight="w"), "6 features"),
        (lambda: layer(t.Reshape, (1, 6), shape=(4,)), "cannot be seen as"),
        (lambda: layer(t.Permute, (1, 6), dims=(1, 0)), "does not permute"),
        (lambda: layer(t.HardSigmoid, (1, 6), alpha=math.inf), "not finite"),
        (lambda: layer(t.Resize, (1, 6), size=(2, 2)), "is not \\(N, C, H, W\\)"),
        (lambda: layer(t.Resize, (1, 3, 5, 4), size=(0, 2)), "size 0 is not between 1"),
        (lambda: layer(t.Resize, (1, 3, 5, 4), size=(2, 2), mode="cubic"), "mode is 'cubic', not one of nearest, lin"),
        (lambda: layer(t.Resize, (1, 3, 5, 4), size=(2, 2), coordinates="corners"), "coordinates is 'corners', not"),
        (lambda: layer(t.Resize, (1, 3, 5, 4), size=(2, 2), rounding="up"), "rounding is 'up', not one of floor"),
        (lambda: layer(t.Resize, (1, 3, 5, 4), size=(2, 2), scales=(0.5, -1.0)), "scale -1.0 is not a positive"),
        (lambda: layer(t.ConvTranspose2d, (1, 4, 5, 4), **ACROSS), "input has 4 channels, the weight is for 6"),
        (lambda: layer(t.ConvTranspose2d, (1, 6, 5, 4), **ACROSS | {"groups": 4}), "4 groups do not divide 6 input"),
        (lambda: layer(t.ConvTranspose2d, (1, 6, 5, 4), **ACROSS | {"output_padding": (0, 2)}), "output padding 2 is"),
        (lambda: layer(t.ConvTranspose2d, (1, 6, 1, 4), **ACROSS | {"padding": ((2, 2), (0, 0))}), "leaves none of 4"),
        (lambda: layer(t.LayerNorm, (1, 6), dim=0), "dimension 0 is not one after the batch"),
        (lambda: layer(t.LayerNorm, (1, 6), eps=-1.0), "eps is -1.0, not a finite number from 0"),
        (lambda: layer(t.GroupNorm, (1, 6, 5, 4), num_groups=4), "4 groups do not divide the channels of"),
        (lambda: layer(t.GroupNorm, (1, 6), num_groups=2, eps=math.inf), "eps is inf, not a finite number"),
        (lambda: layer(t.Mean, (1, 6), dim=2), "dimension 2 is not one after the batch"),
        (lambda: layer(t.LeakyReLU, (1, 6), alpha=math.nan), "alpha nan is not finite"),
        (lambda: layer(t.GELU, (1, 6), approximate="erf"), "approximate is 'erf', not 'none' or 'tanh'"),
        (lambda: layer(t.Div, (1, 3), (1, 4)), "do not fit"),
        (lambda: layer(t.Maximum, (1, 3), (2, 3)), "do not fit"),
        (lambda: layer(t.ChannelShuffle, (1, 6, 5, 5), groups=4), "4 groups do not divide 6 channels"),
        (lambda: layer(t.ChannelShuffle, (1, 6), groups=2), "is not \\(N, C, H, W\\)"),
        (lambda: layer(t.Slice, (1, 6), starts=(0,), sizes=(2, 1), steps=(1,)), "not one number per axis"),
        (lambda: layer(t.Slice, (1, 6), starts=(4,), sizes=(3,), steps=(1,)), "3 elements from 4 in steps of 1 do not"),
        (lambda: layer(t.Slice, (1, 6), starts=(4,), sizes=(3,), steps=(-3,)), "3 elements from 4 in steps of -3"),
        (lambda: layer(t.Slice, (1, 6), starts=(0,), sizes=(0,), steps=(1,)), "0 elements from 0"),
        (lambda: layer(t.MaxPool2d, (1, 1, 5, 5), kernel_size=(2, 2), padding=((2, 0), (0, 0))), "not below"),
    ],
)
def test_layers_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def graph(*layers, output="y", shape=(1, 3, 9, 8)):
    return t.Graph(name="g", input="x", input_shape=shape, layers=layers, output=output)


def test_graphs_are_checked():
    first = conv()
    assert graph(first).output_shape == (1, 4, 7, 6)
    with pytest.raises(ValueError, match="before any layer writes it"):
        graph(conv(inputs=("z",)))
    with pytest.raises(ValueError, match="takes 'x' to be"):
        graph(conv((1, 3, 5, 5)))
    with pytest.raises(ValueError, match="same tensor"):
        graph(first, first)
    with pytest.raises(ValueError, match="no layer writes"):
        graph(first, output="z")
    with pytest.raises(ValueError, match="used as"):
        graph(first, conv((1, 4, 7, 6), in_channels=4, inputs=("y",), output="z"))


def test_shared_parameters_are_counted_once():
    first = conv((1, 4, 9, 8), in_channels=4, padding=((1, 1), (1, 1)))
    second = conv((1, 4, 9, 8), in_channels=4, inputs=("y",), output="z")
    shared = graph(first, second, shape=(1, 4, 9, 8), output="z")
    assert shared.params == first.params
    assert shared.macs == first.macs + second.macs
