"""The comparison finds what is wrong: it must not pass a network that is off."""

import numpy as np
import pytest
from network_models import Nodes

from common.network import available
from common.network.compare import compare, relative_error, top
from common.network.kernels import KernelBackend


@pytest.fixture
def model(rng):
    nodes = Nodes(rng)
    x = nodes("Relu", nodes.conv("x", 3, 8))
    x = nodes("Flatten", nodes("GlobalAveragePool", nodes.conv(x, 8, 16)))
    weight, bias = nodes.number(rng.standard_normal((16, 20))), nodes.number(rng.standard_normal(20))
    return nodes.model(nodes("Gemm", x, weight, bias), ("n", 3, 9, 8))


def spoil(monkeypatch, change):
    """From here on the kernels' backend has one number changed, the first of the classifier's bias."""
    original = KernelBackend.__init__

    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        parameter = list(self.parameters.values())[-1]
        parameter[(0,) * parameter.ndim] = change(parameter[(0,) * parameter.ndim])

    monkeypatch.setattr(KernelBackend, "__init__", init)


def test_all_backends_are_within_the_contract(model):
    rows = compare(model, inputs=3)
    assert [row.backend for row in rows] == ["onnxruntime", *(name for name in available() if name != "onnxruntime")]
    assert all(row.within_contract and row.images == row.same_top5 == 3 and row.milliseconds > 0 for row in rows)
    assert rows[0].error == 0 and set(available()) == {row.backend for row in rows}


def test_a_planted_error_is_found(model, monkeypatch):
    """One score of twenty is off by 1e-3, and all are of size 1 to 10: an error of about 1e-4."""
    spoil(monkeypatch, lambda value: value + 1e-3)
    reference, ours, torchs = compare(model, inputs=3, backends=["kernels", "torch"])
    assert not ours.within_contract and ours.error > 1e-5
    assert reference.within_contract and torchs.within_contract


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_outside_the_contract(model, monkeypatch, value):
    spoil(monkeypatch, lambda _: value)
    ours = compare(model, inputs=2, backends=["kernels"])[1]
    assert not ours.within_contract


def test_nan_in_one_input_of_several_is_found(model, monkeypatch):
    original = KernelBackend.__call__
    calls = []

    def call(self, x):
        calls.append(x)
        result = original(self, x)
        return result * np.float32(np.nan) if len(calls) == 3 else result  # the first call warms up

    monkeypatch.setattr(KernelBackend, "__call__", call)
    ours = compare(model, inputs=3, backends=["kernels"])[1]
    assert np.isnan(ours.error) and not ours.within_contract


def test_another_order_of_classes_is_outside_the_contract(model, monkeypatch):
    original = KernelBackend.__call__
    monkeypatch.setattr(KernelBackend, "__call__", lambda self, x: original(self, x)[:, ::-1].copy())
    ours = compare(model, inputs=2, backends=["kernels"])[1]
    assert ours.same_top5 < 2 and not ours.within_contract


def test_a_seed_draws_the_same_inputs_again(model):
    first, again, other = (compare(model, 2, backends=["torch"], seed=seed)[1].error for seed in (1, 1, 2))
    assert first == again != other


def test_inputs_of_another_size(model):
    assert all(row.within_contract for row in compare(model, 1, size=13))


def test_relative_error():
    assert relative_error([1.0, 2.0], [1.0, 2.0]) == 0
    assert relative_error([3.0, 4.0], [0.0, 0.0]) > 1e300
    assert relative_error([3.0, 0.0], [3.0, 4.0]) == pytest.approx(0.8)
    assert np.isnan(relative_error([np.nan], [1.0])) and np.isnan(relative_error([1.0], [np.nan]))
    with pytest.raises(ValueError, match="shape"):
        relative_error([1.0], [[1.0]])


def test_top():
    scores = np.array([[0, 3, 1, 2], [5, 5, 9, 5]])
    assert top(scores, 2).tolist() == [[1, 3], [2, 0]]
    assert top(scores).shape == (2, 4)
