"""The drawing of zeros that kernels can skip."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
from test_draw import words

from common import draw
from common.draw.sparsity import skipped

PIECE = np.ones((32, 64))
PIECE[:, :16] = 0  # pixels
PIECE[0, 16:32] = 0


def test_what_each_scheme_skips():
    shares = {scheme: gone.mean() for scheme, gone in skipped(PIECE).items()}
    assert shares == {"ballot": 0.25 + 16 / 2048, "pixels": 0.25, "tiles": 0.0}
    assert skipped(np.zeros((32, 64)))["tiles"].all()
    nan = np.full((32, 64), np.nan)
    assert not any(gone.any() for gone in skipped(nan).values())


def test_the_drawing_says_it():
    drawing = draw.skipping({"half": PIECE, "nothing": np.zeros((32, 64))})
    assert "half, 26% zeros, pixels: 25% skipped" in drawing.alt and "nothing, 100% zeros, tiles: 100%" in drawing.alt
    assert {"pixel", "zero: skipped", "ballot: 26% skipped"} <= set(words(drawing))
