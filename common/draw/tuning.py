"""Tuning: the times of all tiles of a block, how searches come down with every question, a ranking beside them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from ..report import plots
from ..report.plots import INK
from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Drawing

COLOURS = (GREY, ORANGE, BLUE, GREEN, PURPLE, SKY)
REACH = 1.5  # of the best time


def all_times(groups: Mapping[str, Sequence[float]]) -> Drawing:
    """The times of tiles in ascending order, a line per group. groups: by name, times over the fastest tile's."""
    figure, panel = plt.subplots(figsize=(plots.WIDTH, 3.2), layout="constrained")
    said = []
    for (name, us), colour in zip(groups.items(), COLOURS[1:], strict=False):
        ordered = np.sort([one for one in us if np.isfinite(one)])
        panel.plot(np.linspace(0, 100, len(ordered)), ordered, color=colour, linewidth=2, label=name)
        within = np.mean(ordered <= REACH)
        said.append(f"{name}: half are within {np.median(ordered):.2f}×, {within:.0%} within {REACH:g}×")
    panel.axhline(REACH, color=INK, linewidth=1, linestyle=":", label=f"{REACH:g}× the fastest")
    panel.set_yscale("log")
    panel.set_yticks([1, 2, 4, 8, 16], ["1×", "2×", "4×", "8×", "16×"])
    panel.minorticks_off()
    panel.set(xlabel="share of the tiles, the fastest first, %", ylabel="time over the fastest tile's", xlim=(0, 100))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="upper left")
    axes = "x: share of the tiles, the fastest first, in %; y, logarithmic: time over the fastest tile's"
    return Drawing(figure, f"One rising line per batch size. {axes}. {'; '.join(said)}. A dotted line at {REACH:g}×.")


def budget_curves(searches: Mapping[str, Sequence[Sequence[float]]], best: float) -> Drawing:
    """The best time so far against the number of questions: per search the median of its runs and the middle half.

    searches: by name, the curves of several runs (oracle.curves), or one. best: the fastest time of all tiles.
    """
    figure, panel = plt.subplots(figsize=(plots.WIDTH, 3.6), layout="constrained")
    said, longest = [], 0
    for (name, runs), colour in zip(searches.items(), COLOURS, strict=False):
        length = max(map(len, runs))
        table = np.array([[*run, *[run[-1]] * (length - len(run))] for run in runs]) / best
        low, middle, high = np.percentile(table, (25, 50, 75), axis=0)
        asked = np.arange(1, length + 1)
        panel.fill_between(asked, low, high, color=colour, alpha=0.2, linewidth=0, step="post")
        panel.step(asked, middle, where="post", color=colour, linewidth=2, label=name)
        said.append(f"{name}: {middle[-1]:.2f}× after {length} questions")
        longest = max(longest, length)
    panel.axhline(1, color=INK, linewidth=1)
    panel.set(xlabel="questions", ylabel="best so far, over the fastest tile", xlim=(1, longest), ylim=(0.97, 2.5))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="upper right")
    axes = "x: questions; y: best time so far over the fastest tile's"
    lines = "One falling line per search, the median of its runs, with a band for their middle half"
    return Drawing(figure, f"{lines}. {axes}. {'; '.join(said)}.")


def predicted_and_measured(panels: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Drawing:
    """One dot per tile, µs predicted against µs of the oracle, one panel per case; the line of equality.

    panels: by title, (predicted µs, µs) of the same tiles.
    """
    size = (plots.WIDTH, 1.0 + plots.WIDTH / max(2, len(panels)))
    figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    said = []
    for panel, (title, (predicted, us)) in zip(axes[0], panels.items(), strict=True):
        panel.plot(us, predicted, "o", color=BLUE, markersize=3.5, alpha=0.6)
        ends = min(*predicted, *us) / 1.2, max(*predicted, *us) * 1.2
        panel.plot(ends, ends, color=INK, linewidth=1)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="µs of the oracle", ylabel="µs predicted")
        for axis in (panel.xaxis, panel.yaxis):  # 10, 20, 50, …: labels that do not meet in a narrow panel
            axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
        panel.set_title(title, fontsize=11, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        said.append(f"{title}: rank correlation {rank_correlation(predicted, us):.2f}")
    axes = "x: µs of the oracle; y: predicted µs; both logarithmic; a line where they are equal"
    return Drawing(figure, f"One panel per model and batch size, one dot per tile. {axes}. {'; '.join(said)}.")


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the places in the order, from −1 to 1."""

    def places(values: Sequence[float]) -> np.ndarray:
        return np.argsort(np.argsort(values, kind="stable"), kind="stable")

    return float(np.corrcoef(places(a), places(b))[0, 1])
