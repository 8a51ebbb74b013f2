"""The compositions by name, and what the card has of what they use."""

import pytest

from common import cuda
from common.network.backends import COMPOSITIONS, composition
from common.optimize import features as features_module
from common.optimize.compositions import Composition
from common.optimize.features import features, missing
from common.optimize.tiles import chosen


def test_by_name():
    assert composition(None) is None
    latency, throughput = composition("latency"), composition("throughput")
    assert latency.programmatic and throughput.programmatic and latency.head and not throughput.head
    assert all(composition(name).name == name and composition(name).fuse is chosen for name in COMPOSITIONS)
    mine = Composition("mine")
    assert composition(mine) is mine


def test_that_there_are_not():
    with pytest.raises(ValueError, match="optimize must be one of latency, throughput or None, got 'fast'"):
        composition("fast")
    with pytest.raises(TypeError, match="got list"):
        composition([])
    with pytest.raises(ValueError, match=r"feature must be one of fused blocks, .* got 'wings'"):
        missing("wings")


CARDS = {
    75: (True, True, True),
    80: (False, True, True),
    89: (False, True, True),
    90: (False, False, False),
    100: (False, False, False),
}


@pytest.mark.parametrize("capability", CARDS)
def test_what_cards_have(monkeypatch, capability):
    monkeypatch.setattr(cuda, "compute_capability", lambda: capability)
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(features_module, "_has", lambda module: True)
    found = features()
    assert tuple(one.missing is not None for one in found) == CARDS[capability]
    for one in found:
        assert one.missing is None or f"this card, sm_{capability}, has none" in one.missing
        assert one.instead


def test_without_the_package_there_are_no_programmatic_launches(monkeypatch):
    monkeypatch.setattr(cuda, "compute_capability", lambda: 90)
    monkeypatch.setattr(features_module, "_has", lambda module: False)
    assert missing("programmatic launches") == "needs the package cuda-bindings"
    assert missing("clusters") is None


def test_on_the_simulator():
    if cuda.backend() == "gpu":
        pytest.skip("is about the simulator")
    assert missing("fused blocks") is None
    assert missing("programmatic launches") == "needs sm_90, the simulator has none"


def test_a_card_without_tensor_cores_of_this_kind_chooses_nothing(monkeypatch):
    from common.optimize.generate import Block

    monkeypatch.setattr(cuda, "compute_capability", lambda: 75)
    assert chosen(Block(7, 7, 16, 96, 16), 1, "float16") is None
