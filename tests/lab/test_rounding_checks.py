"""What notebook 02/3 says of answers that are no exercises."""

import numpy as np
import pytest
import torch

from common.lab import rounding_checks as checks
from common.topology import ReLU6, build

# Sums


def right_sum(products, dtype):
    total = np.zeros(products.shape[1], dtype)
    for row in products:
        total = (total + row).astype(dtype)  # NumPy adds fp16 and float32 in float32
    return total


def test_right_sums():
    assert checks.accumulate_flaw(checks.in_turn) == "" == checks.accumulate_flaw(right_sum)


@pytest.mark.parametrize(
    ("accumulate", "said"),
    [
        (lambda p, dtype: p.sum(0, dtype=dtype), "1.0009766, expected 1: rounded once at the end"),
        (lambda p, dtype: p.astype(dtype).sum(0), "NumPy's sum of one column does so, too"),
        (lambda p, dtype: p.sum(0).astype(dtype), "rounded once at the end"),
        (lambda p, dtype: p.cumsum(0, dtype=dtype)[-1], "each product was rounded before it was added"),
        (lambda p, dtype: right_sum(p, np.float32), "of type float32, expected float16"),
        (lambda p, dtype: right_sum(p, dtype)[0], "the shape is (), expected (1,)"),
        (lambda p, dtype: right_sum(p[:-1], dtype), "expected"),
    ],
)
def test_wrong_sums(accumulate, said):
    flaw = checks.accumulate_flaw(accumulate)
    assert flaw.startswith("✗ ") and said in flaw


# The largest activation


GRAPH = build(0.35, 10, 32)
OUTPUTS = {layer.output: torch.full((2,), -1.0 - i) for i, layer in enumerate(GRAPH)}


def place(layer):
    return type(layer).__name__


def run(see):
    for layer in GRAPH:
        see(layer, OUTPUTS[layer.output])


def largest(stored=lambda layer, inside: layer.output not in inside, size=lambda y: float(y.abs().max())):
    inside = {layer.inputs[0] for layer in GRAPH if isinstance(layer, ReLU6)}
    found = {}
    for layer in GRAPH:
        if stored(layer, inside):
            found[place(layer)] = max(found.get(place(layer), 0.0), size(OUTPUTS[layer.output]))
    return found


def test_right_sizes():
    assert checks.largest_flaw(largest(), GRAPH, place, run) == ""
    tensors = {kind: torch.tensor(size) for kind, size in largest().items()}
    assert checks.largest_flaw(tensors, GRAPH, place, run) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "largest is empty"),
        (largest(size=lambda y: float(y.max())), "expected"),
        ({kind: size for kind, size in largest().items() if kind != "Linear"}, "no entry for 'Linear'"),
        (largest() | {"Linear": None}, "largest['Linear'] is None, expected a number"),
        (largest() | {"all": 1.0}, "largest has the key 'all'"),
        (largest() | {"Conv2d": 1.0}, "are all outputs of the kind counted, and no others?"),
    ],
)
def test_wrong_sizes(found, said):
    flaw = checks.largest_flaw(found, GRAPH, place, run)
    assert flaw.startswith("✗ ") and said in flaw


# int8


def int8(weight, per_channel, size=np.abs, rounded=np.round, levels=127, axis=(1, 2, 3)):
    largest = size(weight).max(axis=axis, keepdims=True) if per_channel else size(weight).max()
    scale = largest / levels
    return (rounded(weight / scale) * scale).astype(np.float32)


def test_right_levels():
    assert checks.int8_flaw(int8) == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": 128}, "is no whole number times the scale"),
        ({"rounded": lambda w: w}, "is no whole number times the scale"),
        ({"rounded": np.floor}, "more than half a step"),
        ({"size": lambda w: w}, "is no whole number times the scale"),
        ({"axis": (0, 2, 3)}, "int8(weight, True)"),
    ],
)
def test_wrong_levels(options, said):
    flaw = checks.int8_flaw(lambda weight, per_channel: int8(weight, per_channel, **options))
    assert flaw.startswith("✗ ") and said in flaw


def test_one_scale_for_both():
    assert "int8(weight, True)" in checks.int8_flaw(lambda weight, per_channel: int8(weight, False))
    assert "int8(weight, False)" in checks.int8_flaw(lambda weight, per_channel: int8(weight, True))


# A convolution whose sums are rounded


@pytest.mark.parametrize(("groups", "stride"), [(1, (1, 1)), (6, (1, 1)), (1, (2, 2)), (6, (2, 1))])
def test_without_rounding_it_is_a_convolution(groups, stride):
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2, 6, 9, 8, generator=random)
    weight = torch.randn(6, 6 // groups, 3, 3, generator=random)
    bias = torch.randn(6, generator=random)
    wanted = torch.nn.functional.conv2d(x, weight, bias, stride, groups=groups)
    got = checks.convolve_rounded(x, weight, bias, stride, groups, store=lambda y: y)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    half = checks.convolve_rounded(x, weight, bias * 0, stride, groups, store=lambda y: y.half().float())
    assert torch.equal(half, half.half().float()) and not torch.equal(half, wanted - bias.reshape(1, -1, 1, 1))
