"""Drawings of a multiprocessor: the issue slots of a scheduler, limits of blocks, waves."""

from itertools import pairwise

import pytest
from matplotlib.text import Text

from common import draw
from common.cuda.machine_code import occupancy
from common.draw.multiprocessor import issued


@pytest.mark.parametrize(
    ("warps", "chains", "used"), [(1, 1, 4), (2, 1, 8), (4, 1, 16), (1, 2, 8), (1, 4, 16), (2, 2, 16), (5, 3, 16)]
)
def test_independent_instructions_fill_issue_slots(warps, chains, used):
    slots = issued(warps, chains, latency=4, cycles=16)
    assert sum(slot is not None for slot in slots) == used
    for warp in range(warps):
        for chain in range(chains):
            times = [cycle for cycle, slot in enumerate(slots) if slot == (warp, chain)]
            assert all(b - a >= 4 for a, b in pairwise(times))


def words(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text()]


def test_counts_are_hidden_where_they_are_asked_for():
    assert "4 issue slots are used" in draw.issue_slots().alt
    hidden = draw.issue_slots(labels=False)
    assert "4 issue" not in hidden.alt and not any("of 16 slots" in text for text in words(hidden))


def test_limits_and_waves():
    assert "registers 1" in draw.block_limits(occupancy("H200", 256, 172, 8192)).alt
    assert "3 waves; in the last wave 4 places stay empty" in draw.waves(20, 8).alt
    with pytest.raises(ValueError, match="slots must be at most 16"):
        draw.waves(20, 17)
    with pytest.raises(ValueError, match="arms must be at most 5"):
        draw.divergence(6)
    with pytest.raises(ValueError, match="warps must be at most 5"):
        draw.issue_slots(6)


def test_places_used_against_the_batch():
    drawing = draw.places_used({"one": [0.5, 1.0, 0.75, 1.0], "two": [0.25, 0.5, 0.75, 0.9]})
    lines = drawing.figure.axes[0].lines
    assert list(lines[0].get_xdata()) == [1, 2, 3, 4] and list(lines[0].get_ydata()) == [50, 100, 75, 100]
    assert "one: full at batch 2, 4; two: full at batch none" in drawing.alt
