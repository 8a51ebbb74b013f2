"""The paper's table and the layers built from it."""

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import topology as t


@given(st.floats(0.01, 1e4), st.sampled_from([1, 2, 4, 8, 16]))
def test_make_divisible_is_the_nearest_multiple_that_keeps_nine_tenths(channels, divisor):
    result = t.make_divisible(channels, divisor)
    assert isinstance(result, int)
    assert result % divisor == 0
    assert result >= max(divisor, 0.9 * channels)
    nearest = min(range(divisor, int(channels) + 2 * divisor + 1, divisor), key=lambda m: abs(m - channels))
    assert result in (nearest, nearest + divisor)


@pytest.mark.parametrize(
    ("channels", "expected"),
    [(32, 32), (11.2, 16), (5.6, 8), (8.4, 8), (33.6, 32), (44.8, 48), (12, 16), (44, 48), (1, 8)],
)
def test_make_divisible_by_hand(channels, expected):
    assert t.make_divisible(channels) == expected


def test_the_full_size_network():
    graph = t.build()
    assert len(graph) == 99
    assert graph.census() == {
        "Conv2d": 52,
        "ReLU6": 35,
        "ResidualAdd": 10,
        "GlobalAveragePool": 1,
        "Linear": 1,
    }
    assert graph.macs == 300_774_272
    assert graph.params == 3_487_816  # 3,504,872 with batch-norms, less one of two numbers a channel
    assert graph.name == "mobilenetv2-1.0-224"
    assert graph.output_shape == (1, 1000)
    listing = str(graph).splitlines()
    assert listing[3].startswith(" 0: Conv2d(3, 32, 3, 2, 1, 1) ")
    assert listing[4].split() == ["1:", "ReLU6", "1", "×", "32", "×", "112", "×", "112"]
    assert "15: ResidualAdd(9, 14) " in listing[18]
    assert "98: Linear(1280, 1000) " in listing[101]
    assert max(map(len, listing)) <= 100


def test_three_kinds_of_convolution_and_relu6_after_convolutions_only():
    layers = t.build().layers
    for before, layer in itertools.pairwise(layers):
        if isinstance(layer, t.ReLU6):
            assert isinstance(before, t.Conv2d)
            assert layer.inputs == (before.output,)
    convs = [layer for layer in layers if isinstance(layer, t.Conv2d)]
    assert sum(c.groups == c.in_channels == c.out_channels for c in convs) == 17  # depthwise
    assert sum(c.kernel_size == (1, 1) for c in convs) == 34  # pointwise
    assert sum(c.kernel_size == (3, 3) and c.groups == 1 for c in convs) == 1  # the stem


def test_with_batch_norm():
    graph = t.build(batch_norm=True)
    assert graph.census()["BatchNorm2d"] == 52
    assert graph.params == 3_504_872
    assert graph.macs == t.build().macs


@pytest.mark.parametrize(
    ("width", "millions", "params"),
    # The paper's accompanying table of models: MACs and parameters in millions.
    [
        (1.4, 582, 6.06),
        (1.3, 509, 5.34),
        (1.0, 300, 3.47),
        (0.75, 209, 2.61),
        (0.5, 97, 1.95),
        (0.35, 59, 1.66),
    ],
)
def test_published_sizes(width, millions, params):
    graph = t.build(width=width)
    assert graph.macs / 1e6 == pytest.approx(millions, rel=0.01)
    assert graph.params / 1e6 == pytest.approx(params, rel=0.02)


@pytest.mark.parametrize("size", [224, 244, 96, 33, 1, (65, 97), (1, 300)])
def test_any_input_size(size):
    graph = t.build(input_size=size, batch=3, in_channels=1, num_classes=7)
    height, width = (size, size) if isinstance(size, int) else size
    assert graph.input_shape == (3, 1, height, width)
    assert graph.output_shape == (3, 7)
    for _ in range(5):
        height, width = (height + 1) // 2, (width + 1) // 2
    assert graph.layers[96].output_shape == (3, 1280, height, width)


def test_another_batch_size():
    graph = t.build(width=0.35, input_size=32)
    assert graph.with_batch(5) == t.build(width=0.35, input_size=32, batch=5)
    assert graph.with_batch(5).macs == 5 * graph.macs


@pytest.mark.parametrize(
    "arguments",
    [
        {"width": 0},
        {"width": -1.0},
        {"width": float("nan")},
        {"width": float("inf")},
        {"num_classes": 0},
        {"input_size": 0},
        {"input_size": (224, -1)},
        {"batch": 0},
        {"in_channels": 0},
        {"input_size": 10**6},
    ],
)
def test_numbers_that_describe_no_network(arguments):
    with pytest.raises(ValueError, match=r"."):
        t.build(**arguments)


def test_importing_the_package_needs_neither_torch_nor_onnx():
    code = "import sys, common.topology as t; t.build(); print({'torch', 'onnx', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_every_public_name_is_there():
    for name in t.__all__:
        assert hasattr(t, name), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        t.nothing  # noqa: B018
