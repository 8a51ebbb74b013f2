"""The suite "families": its networks, what it calls wrong, and its records; small networks stand for torchvision's."""

import io
import sys
import types

import numpy as np
import pytest
import torch
from rich.console import Console
from tiers import seldom
from torch import nn

from common.bench import families, vision
from common.report import results

SIDE = 32


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


class Maps(nn.Module):
    """Feature maps by name."""

    def __init__(self):
        super().__init__()
        self.features = small()[:3]

    def forward(self, x):
        return {"0": self.features(x)}


class Head(nn.Module):
    """Scores and boxes of all pixels."""

    def __init__(self):
        super().__init__()
        self.scores, self.boxes = nn.Conv2d(8, 12, 1), nn.Conv2d(8, 8, 1)

    def forward(self, maps):
        def rows(y, numbers):
            n, _, h, w = y.shape
            return y.view(n, -1, numbers, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, numbers)

        return {"cls_logits": rows(self.scores(maps[0]), 6), "bbox_regression": rows(self.boxes(maps[0]), 4)}


def detector(**_):
    return types.SimpleNamespace(backbone=Maps(), head=Head())


@pytest.fixture
def torchvision(monkeypatch):
    known = {"small": small, vision.SSD: detector}
    models = types.SimpleNamespace(
        list_models=lambda module: ["small"], get_model=lambda name, weights, **more: known[name](**more)
    )
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))


def judged(tmp_path, precisions=families.PRECISIONS, name="small", side=SIDE):
    return list(families.judge(name, side, precisions, 3, tmp_path))


def test_a_network_is_judged_against_float64(torchvision, tmp_path):
    for precision, one in zip(families.PRECISIONS, judged(tmp_path), strict=True):
        assert one.right and one.same_class == 3 and 0 < one.error <= one.allowed
        assert one.beside == {"fp32": "onnxruntime", "fp16": "torch"}[precision]
        assert 0 < one.beside_error < 2e-3 and 0 < one.off < 2 * one.allowed
        assert families.report(one, Console(file=io.StringIO()))


@seldom(6)
def test_a_unet_and_the_head_of_an_ssd(torchvision, tmp_path, monkeypatch):
    monkeypatch.setattr(vision.unet, "__defaults__", (4, 5))  # channels and classes
    for name, outputs in ((vision.UNET, 1), (vision.SSD, 2)):
        for one in judged(tmp_path, name=name):
            assert one.right and one.same_class == 3, one.told()
            assert len(families.Network.load(one.plan).graph.outputs) == outputs


def test_batch_norms_have_seen_noise(torchvision):
    norm = vision.made("small", SIDE)[1]
    assert norm.running_mean.abs().max() > 1e-3 and not norm.training
    assert torch.equal(norm.running_mean, vision.made("small", SIDE)[1].running_mean), "from the seed alone"


def test_what_is_wrong_is_said(torchvision, monkeypatch, tmp_path):
    right = families.Network.__call__
    monkeypatch.setattr(families.Network, "__call__", lambda net, x: right(net, x) * np.float32(1.01))
    (one,) = judged(tmp_path, ["fp32"])
    said = io.StringIO()
    assert not families.report(one, Console(file=said, width=200))
    assert "wrong, 1.0e-05 is allowed" in said.getvalue()
    nan = np.full((2, 5), np.nan)
    assert np.isnan(families.error_of([nan, nan[:1]], [np.ones((2, 5)), np.ones((1, 5))]))
    assert (families.largest([nan]) == -1).all()


def test_a_failure_is_one_line_and_not_the_end(torchvision, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no such layer")

    monkeypatch.setattr(families, "Network", fail)
    monkeypatch.setattr(families, "on_stream", families.tempfile.TemporaryDirectory)  # any context
    monkeypatch.setitem(vision.SIDES, "small", SIDE)
    threads = torch.get_num_threads()
    found = families._all_judged("small", ["fp16"], 2, tmp_path, threads)
    assert found == ["small, fp16: ValueError: no such layer"]
    assert not families.report(found[0], Console(file=io.StringIO()))


@pytest.fixture
def timed(monkeypatch):
    found = types.SimpleNamespace(launch="eager", mode="hot", median_us=2.0, p5_us=1.0, p95_us=3.0, samples=6, calls=1)
    monkeypatch.setattr(families.timing, "time", lambda launch, samples: found)


def test_a_record_can_be_saved(torchvision, timed, tmp_path):
    (one,) = judged(tmp_path, ["fp16"])
    records, same = families.measure(one, families.Options())
    assert same
    results.save(tmp_path / "card", "run", {"card": "a card", "date": "2026-01-01"}, records)
    (stored,) = results.load(tmp_path / "card").suite("families")
    assert stored["launch"] == "graph" and stored["side"] == SIDE and stored["beside"] == "torch"
    assert stored["off"] == pytest.approx(one.off, rel=0.01)


def test_a_loaded_plan_with_other_logits_is_no_record(torchvision, timed, tmp_path):
    (one,) = judged(tmp_path, ["fp32"])
    one.logits[0, 0] = np.nextafter(one.logits[0, 0], 9)
    assert families.measure(one, families.Options()) == ([], False)


def test_unknown_networks_and_a_missing_torchvision(torchvision, monkeypatch):
    with pytest.raises(ValueError, match=r"network must be unet, .* of torchvision.models, got 'large'"):
        vision.made("large", SIDE)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(RuntimeError, match="torchvision, which is not installed"):
        vision.made("small", SIDE)


def test_at_least_fourteen_networks():
    assert len(set(vision.NAMES)) == len(vision.NAMES) >= 16 and {vision.UNET, vision.SSD} < set(vision.NAMES)
    assert set(families.LARGE) | set(vision.SIDES) < set(vision.NAMES)
