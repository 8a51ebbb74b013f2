"""Zeros in activations: which of them a kernel can skip."""

from collections.abc import Mapping

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from .canvas import BLUE, ORANGE, Drawing

LOOKS = {"not zero: multiplied": BLUE, "zero, but multiplied": ORANGE, "zero: skipped": "0.88"}


def skipped(piece: np.ndarray) -> dict[str, np.ndarray]:
    """By scheme, the numbers of a piece (32 channels, pixels of a tile) that it does not multiply."""
    live = piece != 0
    return {
        "ballot": ~live,
        "pixels": np.broadcast_to(~live.any(0), live.shape),
        "tiles": np.full(live.shape, not live.any()),
    }


def skipping(pieces: Mapping[str, np.ndarray]) -> Drawing:
    """Pieces of activations, a row each, and what the three schemes of sparse.py skip of them, a column each.

    pieces: by title, (32 channels, pixels of a tile).
    """
    figure, panels = plt.subplots(
        len(pieces), 3, figsize=(9.4, 0.7 + 1.9 * len(pieces)), sharex=True, sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    said = []
    for row, (title, piece) in zip(panels, pieces.items(), strict=True):
        for panel, (scheme, gone) in zip(row, skipped(piece).items(), strict=True):
            shown = np.where(piece != 0, 0, np.where(gone, 2, 1))
            panel.imshow(shown, cmap=ListedColormap(list(LOOKS.values())), vmin=0, vmax=2)
            words = f"{scheme}: {gone.mean():.0%} skipped"
            panel.set_title(words, fontsize=10.5, loc="left")
            said.append(f"{title}, {(piece == 0).mean():.0%} zeros, {words}")
        row[0].set_ylabel(f"{title}\nchannel", fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("pixel")
    handles = [Patch(facecolor=colour) for colour in LOOKS.values()]
    figure.legend(handles, LOOKS, loc="outside lower center", ncols=3, frameon=False)
    return Drawing(figure, "; ".join(said) + ".")
