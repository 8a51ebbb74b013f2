"""The card on paper: its truth, its sensor, its counter."""

import pytest

from common.measure import energy
from common.measure.modelled_card import ModelledCard


def test_the_truth_is_power_times_time():
    card = ModelledCard(idle=100.0)
    card.enqueue((2.0, 300.0), (1.0, 0.0))
    assert card.total(0.0) == 0
    assert card.total(1.0) == pytest.approx(400.0)
    assert card.total(2.5) == pytest.approx(850.0)
    assert card.total(10.0) == pytest.approx(3 * 100 + 600 + 7 * 100), "idle after the queue"


def test_a_warm_card_leaks():
    cold, warm = ModelledCard(heat=0.05, tau=15.0), ModelledCard(heat=0.05, tau=15.0)
    warm.enqueue((200.0, 300.0))
    begun = warm.total(200.0)
    for card in (cold, warm):
        card.enqueue((1.0, 300.0))
    assert cold.total(1.0) == pytest.approx(400.0, rel=0.01)
    assert warm.total(201.0) - begun == pytest.approx(400.0 + 0.05 * 300.0, rel=0.001)


def test_the_sensor_sees_its_windows_only():
    card = ModelledCard()
    card.enqueue(*[(0.025, 500.0), (0.075, 0.0)] * 10)
    assert card.reading(0.5) == pytest.approx(600.0)
    missed = ModelledCard()
    missed.enqueue((0.05, 0.0), *[(0.025, 500.0), (0.075, 0.0)] * 10)
    assert missed.reading(0.5) == pytest.approx(100.0)
    assert ModelledCard().reading(0.0) == 100.0, "before the first look"
    mean = ModelledCard(window=0.1, averaged=10)
    mean.enqueue(*[(0.025, 500.0), (0.075, 0.0)] * 20)
    assert mean.reading(1.5) == pytest.approx(225.0)


def test_the_counter_shows_its_latest_update():
    card = ModelledCard(idle=100.0, step=0.1)
    card.clock = 0.05
    assert card.energy_j() == 0
    card.clock = 0.27
    assert card.energy_j() == pytest.approx(20.0)
    assert ModelledCard(step=None).energy_j() is None


@pytest.mark.parametrize("step", [0.1, None])
def test_it_can_be_measured(step):
    card = ModelledCard(step=step)
    found = energy.measure({"a": card.workload(16, (1e-3, 400.0))}, machine=card, seconds=2.5, rounds=2, seed=1)
    assert found.method == ("counter" if step else "power")
    assert found["a"].low <= 25.0 <= found["a"].high


def test_a_slow_host_leaves_gaps():
    card = ModelledCard()
    workload = card.workload(16, (1e-3, 400.0), host_s=2e-3)
    found = energy.measure({"a": workload}, machine=card, seconds=2.5, rounds=2, seed=1)["a"]
    assert found.notes == ("the card waited for the host",) and found.gross > 25 + 100 * 1e-3 / 16 * 1e3 * 1.9
