"""Drawings of pictures on their way through a pipeline, and of a service under load."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from ..report.plots import CARD, WIDTH
from .canvas import BLUE, GREEN, GREY, ORANGE, Drawing, cell, positive, text

_COLOURS = {"decode": GREY, "fill": GREY, "copy": ORANGE, "compute": BLUE, "wait": "#dddddd"}
_CURVES = (BLUE, ORANGE, GREEN, GREY)


def pipeline(lanes: Mapping[str, Sequence[tuple[str, int, float, float]]], unit: str) -> Drawing:
    """When each stage of each batch ran, a lane per case and stage.

    lanes: by title, (stage, number of the batch, start, end) in `unit`. stage: "decode", "fill",
    "copy", "compute" or "wait".
    """
    positive(lanes=len(lanes))
    rows = [(title, stage) for title, found in lanes.items() for stage in _COLOURS if any(r[0] == stage for r in found)]
    end = max(one[3] for found in lanes.values() for one in found)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.42 * len(rows)), dpi=110, facecolor=CARD, layout="constrained")
    axes = figure.add_subplot(facecolor=CARD)
    said = []
    for place, (title, stage) in enumerate(rows):
        for what, number, start, stop in lanes[title]:
            if what == stage:
                cell(axes, start, place - 0.36, stop - start, 0.72, _COLOURS[stage])
                if stop - start > 0.03 * end:
                    text(axes, (start + stop) / 2, place, str(number), 10)
    for title, found in lanes.items():
        batches, last = 1 + max(one[1] for one in found), max(one[3] for one in found)
        said.append(f"{title}: {batches} batches in {last:,.0f} {unit}")
    axes.set_yticks(range(len(rows)), [f"{title}: {stage}" for title, stage in rows])
    axes.set(xlim=(0, 1.01 * end), ylim=(len(rows) - 0.5, -0.5), xlabel=unit)
    axes.spines[["top", "right", "left"]].set_visible(False)
    kind = f"A timeline in {unit}: a row per stage, a box per batch with its number."
    return Drawing(figure, f"{kind} {'; '.join(said)}.")


def loads(curves: Mapping[str, Sequence[Mapping[str, Any]]], unit: str = "ms", scale: float = 1.0) -> Drawing:
    """p50, p95 and p99 of latency against the offered load, a panel per batching window, on one logarithmic axis.

    curves: by title, points with "offered" (per second), "p50_ms", "p95_ms", "p99_ms". scale: of `unit` per ms.
    """
    positive(curves=len(curves))
    figure = Figure(figsize=(WIDTH, 3.6), dpi=110, facecolor=CARD, layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    said = []
    for panel, (title, points) in zip(panels, curves.items(), strict=True):
        ordered = sorted(points, key=lambda r: r["offered"])
        for key, colour in zip(("p50_ms", "p95_ms", "p99_ms"), _CURVES, strict=False):
            x, y = [r["offered"] for r in ordered], [scale * r[key] for r in ordered]
            panel.plot(x, y, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=key[:3])
        first, last = (scale * ordered[i]["p99_ms"] for i in (0, -1))
        said.append(f"{title}: p99 from {first:,.3g} to {last:,.3g} {unit}")
        panel.set_facecolor(CARD)
        panel.set_title(title, fontsize=11, loc="left")
        panel.set(xlabel="requests per second, offered", yscale="log")
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.locator_params(axis="x", nbins=4)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"latency, {unit}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    kind = f"Curves of p50, p95 and p99: latency in {unit}, on a logarithmic axis, against offered load."
    return Drawing(figure, f"{kind} {'; '.join(said)}.")
