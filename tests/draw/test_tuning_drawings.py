"""Drawings of tuning and of a persistent kernel: what they show is what they were given."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from common import draw
from common.draw.tuning import rank_correlation
from common.optimize.generate import Block
from common.optimize.head import Head, Linear
from common.optimize.persistent import chosen

LAYERS = [Block(4, 8, 16, 32, 16, residual=True), Head(32, 16, 32), Linear(32, 5)]
DRAWINGS = {
    "times": lambda: draw.all_times({"batch 1": [1.0, 1.4, 3.0, 9.0], "batch 256": [1.0, 2.0]}),
    "budget": lambda: draw.budget_curves({"random": [[4.0, 3.0, 2.0], [2.0, 2.0, 2.0]], "ranking": [[1.0]]}, 1.0),
    "models": lambda: draw.predicted_and_measured({"ours": ([1.0, 2.0, 4.0], [1.5, 2.0, 9.0])}),
    "phases": lambda: draw.phases_memory(
        chosen(LAYERS, "float32", 1, warps=(2,), clusters=(1,), multiprocessors=4, shared_memory=100_000)
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_they_are_drawn_with_a_text(name):
    drawing = DRAWINGS[name]()
    drawing.figure.draw_without_rendering()
    assert len(drawing.alt) > 60


def test_what_their_texts_say():
    assert "batch 1: half are within 2.20×, 50% within 1.5×" in DRAWINGS["times"]().alt
    alt = DRAWINGS["budget"]().alt
    assert "random: 2.00× after 3 questions" in alt and "ranking: 1.00× after 1 questions" in alt
    assert "rank correlation 1.00" in DRAWINGS["models"]().alt


def test_a_correlation_of_orders():
    assert rank_correlation([1, 2, 3], [10, 20, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert abs(rank_correlation(range(100), np.random.default_rng(0).permutation(100))) < 0.3
