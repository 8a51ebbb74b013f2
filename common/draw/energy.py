"""Energy: what a power sensor sees of a load in bursts; what an image takes on each implementation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from ..measure.modelled_card import ModelledCard
from ..report import plots, tables
from ..report.plots import INK
from .canvas import BLUE, GREY, ORANGE, Drawing

SHOWN_S, BEFORE_S = 0.7, 0.1  # of the sensor's timeline


def power_sensor(cases: Mapping[str, tuple[ModelledCard, float]]) -> Drawing:
    """Power over time on modelled cards, a row each: true power, when the sensor measures, and what it shows.

    cases: by title, (a card with all its work enqueued, the moment in s at which the work begins).
    """
    figure, panels = plt.subplots(
        len(cases), 1, figsize=(9, 1.7 * len(cases)), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    said = []
    for panel, (title, (card, start)) in zip(panels[:, 0], cases.items(), strict=True):
        times = np.arange(-BEFORE_S, SHOWN_S, 0.0005)
        true = [(card.total(start + t + 0.0005) - card.total(start + t)) / 0.0005 for t in times]
        panel.fill_between(times, true, color=BLUE, alpha=0.45, linewidth=0, label="true power")
        shown = [card.reading(start + t) for t in times]
        panel.step(times, shown, color=ORANGE, where="post", linewidth=1.8, label="reading")
        first = np.ceil((start - BEFORE_S) / card.every)
        for k in np.arange(first, (start + SHOWN_S) / card.every):
            begin = k * card.every - start
            label = "the sensor measures" if k == first else None
            panel.axvspan(begin, begin + card.window, color=GREY, alpha=0.5, linewidth=0, label=label)
        mean = (card.total(start + SHOWN_S) - card.total(start)) / SHOWN_S
        panel.axhline(mean, color=INK, linestyle="--", linewidth=1, label="true mean of the work")
        panel.set_title(title, loc="left", fontsize=11)
        said.append(f"{title}: readings from {min(shown):.0f} to {max(shown):.0f} W, true mean {mean:.0f} W")
        panel.spines[["top", "right"]].set_visible(False)
        panel.set(ylabel="W", xlim=(-BEFORE_S, SHOWN_S), ylim=(0, 700))
    panels[-1, 0].set_xlabel("seconds since the work began")
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    return Drawing(figure, f"Power over time, the sensor's windows and its readings. {'; '.join(said)}.")


def energy_bars(groups: Mapping[tuple[str, int], Mapping[str, Mapping[str, Any]]]) -> Drawing:
    """Millijoules per image as horizontal bars, a panel per (precision, batch): above idle, and pale with idle power.

    groups: by (precision, batch), the records of the suite "energy" by implementation.
    """
    precisions, batches = (list(dict.fromkeys(keys)) for keys in zip(*groups, strict=True))
    size = 4.9 * len(batches), 0.6 + 2.0 * len(precisions)
    figure, panels = plt.subplots(
        len(precisions), len(batches), figsize=size, squeeze=False, layout="constrained"
    )  # fmt: skip
    said = []
    for line, precision in zip(panels, precisions, strict=True):
        for panel, batch in zip(line, batches, strict=True):
            rows = groups.get((precision, batch), {})
            _bars(panel, rows)
            panel.set_title(f"{precision}, batch {batch}", fontsize=11, loc="left")
            said.append(f"{precision}, batch {batch}: " + ", ".join(_said(rows)))
    for panel in panels[-1]:
        panel.set_xlabel("mJ per image; pale: with idle power")
    return Drawing(figure, "Millijoules per image above idle power. " + "; ".join(said) + ".")


def _said(rows: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    return [f"{tables.IMPLEMENTATIONS[name]} {tables.us(r['mj_per_image'])}" for name, r in rows.items()]


def _bars(panel: Any, rows: Mapping[str, Mapping[str, Any]]) -> None:
    if not rows:
        panel.set_axis_off()
        return
    for i, (name, r) in enumerate(rows.items()):
        colour = plots.IMPLEMENTATIONS[name][0]
        panel.barh(i, r["gross_mj"], height=0.7, color=colour, alpha=0.3)
        panel.barh(i, r["mj_per_image"], height=0.7, color=colour)
        panel.plot([r["mj_low"], r["mj_high"]], [i, i], color=INK, linewidth=1.4, marker="|", markersize=7)
        text = f"{tables.us(r['mj_per_image'])}, with idle {tables.us(r['gross_mj'])}"
        place = max(r["gross_mj"], r["mj_high"]), i
        panel.annotate(text, place, (4, 0), textcoords="offset points", va="center", fontsize=10)
    names = [tables.IMPLEMENTATIONS[name].replace(", layer by layer", "") for name in rows]
    panel.set_yticks(range(len(rows)), names)
    widest = max(max(r["gross_mj"], r["mj_high"]) for r in rows.values())
    panel.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, 2.0 * widest))
    panel.spines[["top", "right"]].set_visible(False)
