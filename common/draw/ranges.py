"""The sizes of a network's numbers beside what fp16 can hold: weights, activations, sums, channels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..report.plots import CARD, COLOURS, INK, WIDTH
from .canvas import BLUE, GREY, RED, Drawing

LARGEST, NORMAL, SUBNORMAL = 65504.0, 2.0**-14, 2.0**-24  # of fp16: the largest, smallest normal and smallest number
_TENSORS = {"ReLU6": "pool", "bottleneck": "project", "residual add": "add", "other": "stem"}  # colours by kind


def _panels(count: int, height: float, beside: bool = False) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), dpi=110, facecolor=CARD, layout="constrained")
    rows, columns = (1, count) if beside else (count, 1)
    panels = figure.subplots(rows, columns, sharex=not beside, sharey=True, squeeze=False).ravel()
    for axes in panels:
        axes.set_facecolor(CARD)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=10.5)
    return figure, panels


def weight_sizes(networks: Mapping[str, Sequence[tuple[str, np.ndarray]]]) -> Drawing:
    """A box per layer for the sizes of its weights, one panel per network.

    networks: by title, (kind, weights) of each layer in order; the kind, a key of COLOURS, gives the colour.
    """
    figure, panels = _panels(len(networks), 0.6 + 2.9 * len(networks))
    for axes, (title, rows) in zip(panels, networks.items(), strict=True):
        boxes = []
        for _, array in rows:
            size = np.abs(array).ravel()
            points = np.percentile(size, [1, 25, 50, 75, 99])
            boxes.append(dict(zip(("whislo", "q1", "med", "q3", "whishi"), points, strict=True)))
            axes.plot(len(boxes) - 1, size.max(), ".", color=INK, markersize=4)
        drawn = axes.bxp(boxes, positions=range(len(rows)), showfliers=False, patch_artist=True, widths=0.7)
        for patch, (kind, _) in zip(drawn["boxes"], rows, strict=True):
            patch.set(facecolor=COLOURS[kind], edgecolor=INK, linewidth=0.5)
        for line in drawn["medians"]:
            line.set(color=INK, linewidth=1.2)
        axes.axhspan(SUBNORMAL, NORMAL, color=GREY, alpha=0.25, linewidth=0)
        axes.text(0, NORMAL / 1.7, "fp16: subnormal", va="top", fontsize=10, color=INK)
        axes.set(yscale="log", ylim=(2**-18, 20))
        axes.set_title(title, fontsize=11, loc="left")
        axes.set_ylabel("|weight|", fontsize=11)
        axes.set_xticks(range(0, len(rows), 4), range(0, len(rows), 4))
    panels[-1].set_xlabel("layer with weights, in the order of the network", fontsize=11)
    kinds = [kind for kind in COLOURS if any(kind == other for rows in networks.values() for other, _ in rows)]
    handles = [Line2D([], [], color=COLOURS[kind], linewidth=8, label=kind) for kind in kinds]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(kinds), frameon=False, fontsize=10.5)
    return Drawing(
        figure,
        f"One panel per network: {', '.join(networks)}. A box per layer holds the middle half of the sizes of its"
        " weights, a line the median; the whiskers go from the 1st to the 99th percentile, a point is the largest. The"
        " axis is logarithmic. Below 2^-14 a grey band marks fp16's subnormal numbers.",
    )


def headroom(networks: Mapping[str, Mapping[str, float]]) -> Drawing:
    """The largest activation of each kind beside fp16's limit: how many doublings are left.

    networks: by title, the largest activation by kind: "ReLU6", "bottleneck", "residual add", "other".
    """
    count = sum(len(kinds) for kinds in networks.values())
    figure, (axes,) = _panels(1, 1.2 + 0.42 * (count + len(networks)))
    row, said = 0, []
    for title, kinds in networks.items():
        axes.text(0.03, row, title, fontsize=11, va="center", weight="bold", color=INK)
        row += 1
        for kind, largest in kinds.items():
            axes.plot([0.25, largest], [row, row], color=COLOURS[_TENSORS[kind]], linewidth=2)
            axes.plot([largest], [row], "o", color=COLOURS[_TENSORS[kind]], markersize=8)
            axes.annotate(
                "", (LARGEST, row), (largest * 1.2, row),
                arrowprops={"arrowstyle": "->", "color": GREY, "linestyle": ":", "linewidth": 1.2},
            )  # fmt: skip
            axes.text(0.22, row, kind, fontsize=10.5, va="center", ha="right", color=INK)
            words = f"largest {largest:.3g}, headroom ×{LARGEST / largest:,.0f}"
            axes.text(700, row - 0.34, words, fontsize=10.5, va="center", ha="center", color=INK)
            said.append(f"{title}, {kind}: largest {largest:.3g}")
            row += 1
    axes.axvline(LARGEST, color=INK, linestyle="--", linewidth=1.3)
    axes.text(LARGEST * 0.9, -0.8, f"fp16's limit, {LARGEST:.0f}", fontsize=10.5, ha="right", va="center", color=INK)
    axes.set(xscale="log", xlim=(0.028, 1e5), ylim=(row - 0.4, -1.2), yticks=[])
    ticks = (1, 10, 100, 1_000, 10_000)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("largest |activation|, logarithmic", fontsize=11)
    return Drawing(
        figure,
        f"A dot per kind of layer for its largest activation, on a logarithmic axis, and an arrow from it to fp16's"
        f" limit of 65504: the headroom. {'; '.join(said)}.",
    )


def accumulators(
    lengths: Sequence[int], errors: Mapping[str, Sequence[float]], allowed: float, marks: Mapping[str, int]
) -> Drawing:
    """Relative errors of sums against the number of terms, one line per accumulator, both axes logarithmic.

    errors: by the name of the accumulator, one per length. allowed: drawn as a line. marks: numbers of terms by name.
    """
    figure, (axes,) = _panels(1, 4.4)
    top = 2 * max(max(values) for values in errors.values())
    for (name, values), colour, marker in zip(errors.items(), (RED, BLUE), "os", strict=False):
        axes.plot(lengths, values, f"{marker}-", color=colour)
        axes.annotate(
            name, (lengths[-1], values[-1]), (-8, 8), textcoords="offset points", ha="right", fontsize=10.5, color=INK
        )
    axes.axhline(allowed, color=INK, linestyle="--", linewidth=1.2)
    axes.text(
        lengths[-1], allowed * 0.93, f"allowed for one fp16 operator: {allowed:g}", va="top", ha="right", fontsize=10.5
    )
    for name, terms in marks.items():
        axes.axvline(terms, color=GREY, linewidth=1, linestyle=":")
        axes.text(terms * 0.96, top * 0.9, name, rotation=90, va="top", ha="right", fontsize=10.5, color=INK)
    low = min(min(values) for values in errors.values())
    axes.set(xscale="log", yscale="log", ylim=(low / 1.6, top), xlim=(lengths[0] / 1.2, lengths[-1] * 1.2))
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.set_xlabel("terms in the sum", fontsize=11)
    axes.set_ylabel("relative error", fontsize=11)
    ends = "; ".join(f"{name}: {values[0]:.1g} to {values[-1]:.1g}" for name, values in errors.items())
    return Drawing(
        figure,
        f"Relative error of a sum against its number of terms, from {lengths[0]} to {lengths[-1]}, both logarithmic."
        f" {ends}. A dashed line marks the error that is allowed, {allowed:g}; dotted lines mark"
        f" {', '.join(f'{name} ({terms} terms)' for name, terms in marks.items())}.",
    )


def channel_spreads(networks: Mapping[str, Sequence[tuple[str, float]]]) -> Drawing:
    """The spread of the channels' ranges in each convolution, one panel per network.

    networks: by title, (kind, spread) of each convolution in order.
    """
    figure, panels = _panels(len(networks), 3.7, beside=True)
    kinds = [kind for kind in COLOURS if any(kind == other for rows in networks.values() for other, _ in rows)]
    largest = max(spread for rows in networks.values() for _, spread in rows)
    powers = [2**k for k in range(math.ceil(math.log2(largest)) + 1)]
    said = []
    for axes, (title, rows) in zip(panels, networks.items(), strict=True):
        for kind in kinds:
            points = [(i, spread) for i, (other, spread) in enumerate(rows) if other == kind]
            axes.plot(*zip(*points, strict=True), "o", color=COLOURS[kind], label=kind, markersize=5.5)
            said.append(f"{title}, {kind}: up to {max(spread for _, spread in points):.1f}")
        axes.set(yscale="log", ylim=(0.9, 1.15 * powers[-1]))
        axes.set_yticks(powers, [str(power) for power in powers])
        axes.minorticks_off()
        axes.set_title(title, fontsize=11, loc="left")
        axes.set_xlabel("convolution, in the order of the network", fontsize=11)
    panels[0].set_ylabel("widest / narrowest channel", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(kinds), frameon=False, fontsize=10.5)
    return Drawing(
        figure,
        "The range of the widest output channel's weights over that of the narrowest, one point per convolution,"
        f" logarithmic. {'; '.join(said)}.",
    )
