"""The suite "families": its networks, what it calls wrong, and its records; small networks stand for torchvision's."""

import io
import sys
import types

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from common.bench import families
from common.report import results

SIDE = 32


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


@pytest.fixture
def torchvision(monkeypatch):
    models = types.SimpleNamespace(
        list_models=lambda module: ["small"], get_model=lambda name, weights: {"small": small}[name]()
    )
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))


@pytest.mark.parametrize("precision", families.PRECISIONS)
def test_a_network_is_judged_against_float64(torchvision, precision):
    judged = families.judge(families.made("small", SIDE), SIDE, precision, 3)
    assert judged.right and judged.same_class == 3 and 0 < judged.error <= judged.allowed
    assert judged.beside == {"fp32": "onnxruntime", "fp16": "torch"}[precision]
    assert 0 < judged.beside_error < 2e-3


def test_batch_norms_have_seen_noise(torchvision):
    norm = families.made("small", SIDE)[1]
    assert norm.running_mean.abs().max() > 1e-3 and not norm.training
    assert torch.equal(norm.running_mean, families.made("small", SIDE)[1].running_mean), "from the seed alone"


def test_a_wrong_result_is_no_record(torchvision, monkeypatch):
    right = families.Network.__call__
    monkeypatch.setattr(families.Network, "__call__", lambda net, x: right(net, x) * np.float32(1.01))
    monkeypatch.setitem(families.SIDES, "small", SIDE)
    said = io.StringIO()
    found = families.measure("small", "fp32", 2, families.Options(), Console(file=said, width=200))
    assert found == ([], False) and "wrong, 1.0e-05 is allowed" in said.getvalue()


def test_a_record_can_be_saved(torchvision, monkeypatch, tmp_path):
    timed = types.SimpleNamespace(launch="eager", mode="hot", median_us=2.0, p5_us=1.0, p95_us=3.0, samples=6, calls=1)
    monkeypatch.setattr(families.timing, "time", lambda launch, samples: timed)
    monkeypatch.setitem(families.SIDES, "small", SIDE)
    records, right = families.measure("small", "fp16", 2, families.Options(), Console(file=io.StringIO()))
    assert right
    results.save(tmp_path / "card", "run", {"card": "a card", "date": "2026-01-01"}, records)
    (kept,) = results.load(tmp_path / "card").suite("families")
    assert kept["launch"] == "graph" and kept["side"] == SIDE and kept["beside"] == "torch"


def test_unknown_networks_and_a_missing_torchvision(torchvision, monkeypatch):
    with pytest.raises(ValueError, match=r"network must be a classifier of torchvision.models, got 'large'"):
        families.made("large", SIDE)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(RuntimeError, match="torchvision, which is not installed"):
        families.made("small", SIDE)


def test_at_least_fourteen_networks():
    assert len(set(families.FAMILIES)) == len(families.FAMILIES) >= 14
