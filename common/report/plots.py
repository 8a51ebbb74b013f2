"""Plots of records: a roofline with measured points, times in stacked bars, a ladder; and SVG files of them.

    roofline(points(records), Peaks.recorded(content), ["fp16"])
    ladder_roofline({"": records}, peaks)  the rungs of a ladder under their roofs
    bars({"cudnn": {"expand": 120.0, "depthwise": 80.0}, "ours": {...}})
    ladder({"naive": 910.0, "tiled": 240.0}, floors={"naive": 60.0, "tiled": 60.0})
    peers(records)                         the whole network, all implementations
    chain(records, peaks)                  the whole network, one optimization added at a time
    sparse(records)                        the break-even sparsity of skipping zeros
    zeros(records)                         the share of zeros in the inputs of convolutions
    outputs(kinds, sizes)                  elements that each convolution writes
    along({"MB": values}, kinds, "layer")  bars in the order of a network
    intensities({"batch 1": values}, kinds, {"ridge point": 15})
    style()                                once in a notebook: colours, sizes
    show(figure, "alternative text")       in a notebook, on a light background
    save_svg(figure, path, records)        the file contains a digest: digest_of(path) == digest(records)

Colours are those of M. Okabe and K. Ito, which remain distinct with any kind of colour vision. A kind of layer has the
same colour in every plot.
"""

import base64
import hashlib
import html
import io
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..files import replacing
from ..measure.roofline import Peaks, Work, roof_of, roof_us
from .results import grouped

COLOURS = {
    "stem": "#555555", "expand": "#0072b2", "depthwise": "#e69f00", "project": "#009e73", "head": "#cc79a7",
    "linear": "#d55e00", "pool": "#999999", "add": "#56b4e9", "ReLU6": "#f0e442",
}  # fmt: skip
_OTHERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#999999")
_MARKERS = {
    "o": 6,
    "s": 6,
    "D": 6,
    "^": 7,
    "v": 7,
    "P": 8,
    "*": 10,
    "X": 8,
}  # sizes that look alike
_ROOFS = {
    "fp32": "fp32 FMA", "tf32": "tf32 tensor cores", "3xtf32": "3xTF32 tensor cores",
    "3xfp16": "3xfp16 tensor cores", "fp16": "fp16 tensor cores",
}  # fmt: skip

WIDTH = 9.0  # inches, for a notebook


@dataclass(frozen=True)
class Point:
    """A measured point: its kind (colour and legend entry), its work, and its time in µs."""

    kind: str
    work: Work
    us: float


def points(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """One point per record, with its median; the kind is the record's "kind", else its implementation."""
    return [Point(r.get("kind", r["implementation"]), Work(r["bytes"], r["flops"]), r["median_us"]) for r in records]


def _colours(kinds: Iterable[str]) -> dict[str, str]:
    """A colour by kind: fixed for layers, for others the colours not in use."""
    kinds = list(dict.fromkeys(kinds))
    taken = {COLOURS[kind] for kind in kinds if kind in COLOURS}
    free = [colour for colour in _OTHERS if colour not in taken] or list(_OTHERS)
    others = [kind for kind in kinds if kind not in COLOURS]
    return {kind: COLOURS.get(kind) or free[others.index(kind) % len(free)] for kind in kinds}


def _ordered(kinds: Iterable[str]) -> list[str]:
    """Kinds of layers in the order of the network, then the others as they come."""
    given = list(dict.fromkeys(kinds))
    return [kind for kind in COLOURS if kind in given] + [kind for kind in given if kind not in COLOURS]


def _engineering(value: float, unit: str) -> str:
    """4.31e12, "B/s" → 4.31 TB/s: three digits."""
    power = max(0, min(4, math.floor(math.log10(value) / 3 + 1e-9)))
    return f"{value / 1000**power:.3g} {('', 'k', 'M', 'G', 'T')[power]}{unit}"


# ---- Roofline


def roofline(
    points: Sequence[Point],
    peaks: Peaks,
    precisions: Sequence[str] = ("fp32",),
    title: str = "",
    apart: Mapping[str, float] | None = None,
) -> Any:
    """A roofline plot: FLOP/s against FLOPs per byte, both logarithmic, and the roofs of these precisions.

    The bandwidth of the L2 cache is a dashed line if `peaks` has it. `apart`: {kind: factor} by which the points of a
    kind are drawn beside their FLOPs per byte, so that two kinds at one place do not hide each other. Returns a
    Matplotlib figure. ValueError without points, or for a point without FLOPs or without a time.
    """
    import matplotlib.pyplot as plt

    if not points:
        raise ValueError("points must be at least one, got none")
    for point in points:
        if point.us <= 0 or point.work.flops <= 0:
            raise ValueError(f"points must have FLOPs and a time above 0, got {point}")
    roofs = {precision: peaks.flops_per_s(precision) for precision in precisions}
    xs = [point.work.intensity * (apart or {}).get(point.kind, 1.0) for point in points]
    ys = [point.work.flops / point.us * 1e6 for point in points]
    top, bandwidth, l2 = max(roofs.values()), peaks.copy_bytes_per_s, peaks.l2_copy_bytes_per_s
    left, right = min(xs) / (4 if l2 is None else 10), max(2 * max(xs), 8 * top / bandwidth)
    bottom, ceiling = min(min(ys) / 3, left * bandwidth / 3), 3 * max(top, max(ys))

    figure, axes = _roofs_alone(peaks, roofs, (left, right), (bottom, ceiling), title)
    colours = _colours(point.kind for point in points)
    for kind, (marker, size) in zip(_ordered(colours), itertools.cycle(_MARKERS.items()), strict=False):
        places = zip(*((x, y) for point, x, y in zip(points, xs, ys, strict=True) if point.kind == kind), strict=True)
        style = {"color": colours[kind], "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.6}
        axes.plot(*places, marker, label=kind, zorder=2, **style)
    axes.legend(loc="lower left", bbox_to_anchor=(1.01, -0.02), frameon=False, fontsize=10)
    plt.close(figure)  # or a notebook would show it twice: as the cell's value, and as an open figure
    return figure


def ladder_roofline(
    series: Mapping[str, Sequence[Mapping[str, Any]]],
    peaks: Peaks,
    title: str = "",
    peers: Mapping[str, str] | None = None,
) -> Any:
    """The rungs of a ladder as dots under the roofs of their arithmetics. A Matplotlib figure.

    series: records of the suite "kernels" by name, {"": records} for one; each is a column of dots, since all rungs of
    a case have the same FLOPs per byte. Columns of the same FLOPs per byte stand side by side, each below a bar at the
    height of its roof; words beside the bars say so. peers: names by implementation for those that are not rungs,
    drawn as squares. Beside each dot of the last column stand the rung's name and its share of the roof.
    ValueError without records.
    """
    import matplotlib.pyplot as plt

    if not series or not all(series.values()):
        raise ValueError("series must hold at least one record each, got none")
    true = [Work(rs[0]["bytes"], rs[0]["flops"]).intensity for rs in series.values()]
    columns = _side_by_side(true)
    rates = [[r["flops"] / r["median_us"] * 1e6 for r in rs] for rs in series.values()]
    roofs = {roof: peaks.flops_per_s(roof) for rs in series.values() for roof in (roof_of(r["arithmetic"]) for r in rs)}
    ridge = max(roofs.values()) / peaks.copy_bytes_per_s
    low = min(peaks.copy_bytes_per_s * min(columns), *itertools.chain(*rates))
    xlim = min(min(columns) / 100, ridge / 30), max(max(columns) * 120, ridge * 8)
    ylim = (
        min(low / (4 if len(columns) == 1 else 12), xlim[0] * peaks.copy_bytes_per_s / 2),
        3 * max(*roofs.values(), *itertools.chain(*rates)),
    )
    figure, axes = _roofs_alone(peaks, roofs, xlim, ylim, title)
    axes.set_ylabel("FLOP/s, measured")
    peers = peers or {}
    for x, records, ys in zip(columns, series.values(), rates, strict=True):
        colour = COLOURS.get(records[0]["case"].split()[0], COLOURS["expand"])
        for r, y in zip(records, ys, strict=True):
            look: dict[str, Any] = {"marker": "o", "color": colour, "markeredgecolor": "white", "markeredgewidth": 0.6}
            if r["implementation"] in peers:
                look = {"marker": "s", "color": "white", "markeredgecolor": INK, "markeredgewidth": 1.2}
            axes.plot([x], [y], markersize=7, zorder=3, **look)
    tops = [
        max(min(x * peaks.copy_bytes_per_s, peaks.flops_per_s(roof_of(r["arithmetic"]))) for r in rs)
        for x, rs in zip(true, series.values(), strict=True)
    ]
    moved = columns != true
    if moved:  # a column beside its place does not stand below its part of the roof
        for x, top in zip(columns, tops, strict=True):
            axes.plot([x / 1.15, x * 1.15], [top, top], color="black", linewidth=2.5, solid_capstyle="butt", zorder=2)
        axes.annotate(
            f"all at {true[0]:.3g}", (columns[-1] * 1.15, tops[-1]), (4, 1), textcoords="offset points", va="bottom",
            fontsize=10, zorder=4,
        )  # fmt: skip
    for i, (x, name) in enumerate(zip(columns, series, strict=True)):
        beside = [
            j for j, other in enumerate(columns) if max(x, other) / min(x, other) < 8
        ]  # names one below the other
        lowest, down = min(min(rates[j]) for j in beside), -8 - 14 * beside.index(i)
        axes.annotate(name, (x, lowest), (0, down), textcoords="offset points", ha="center", va="top", fontsize=10)
    last = [*series.values()][-1]
    shares = [roof_us(Work(r["bytes"], r["flops"]), roof_of(r["arithmetic"]), peaks) / r["median_us"] for r in last]
    names = [peers.get(r["implementation"]) or r["implementation"].split("/")[-1] for r in last]
    words = [f"{name}  {percent(share)}" for name, share in zip(names, shares, strict=True)]
    _label_dots(axes, columns[-1], rates[-1], words, tops[-1])
    axes.annotate(
        "beside each dot:\nshare of the roof", (1.02, 0.02), xycoords="axes fraction", fontsize=10, va="bottom",
        annotation_clip=False,
    )  # fmt: skip
    plt.close(figure)
    return figure


def _side_by_side(xs: Sequence[float]) -> list[float]:
    """Places on a logarithmic axis; those of one value are spread about it."""
    places = []
    for i, x in enumerate(xs):
        same = [j for j, other in enumerate(xs) if math.isclose(x, other, rel_tol=0.05)]
        places.append(x * 1.5 ** (same.index(i) - (len(same) - 1) / 2))
    return places


def _label_dots(axes: Any, x: float, ys: Sequence[float], words: Sequence[str], roof: float) -> None:
    """Words right of each dot of a column, with a line to it; words keep a line's distance from each other.

    Where all dots are below the roof of the column, all words are.
    """
    step = 15.0  # points
    heights = axes.transData.transform([(x, y) for y in ys])[:, 1] * 72 / axes.figure.dpi
    order = np.argsort(heights, kind="stable")
    # the nearest places in this order with distances of `step`: neighbours that would overlap share their mean
    groups: list[list[float]] = []
    for k, i in enumerate(order):
        groups.append([heights[i] - step * k])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [float(np.mean(group)) for group in groups for _ in group]
    if max(ys) < roof:
        highest = axes.transData.transform((x, roof))[1] * 72 / axes.figure.dpi - 7
        places = [min(place, highest - step * (len(places) - 1)) for place in places]
    for k, i in enumerate(order):
        axes.annotate(
            words[i], (x, ys[i]), (30, places[k] + step * k - heights[i]), textcoords="offset points", va="center",
            fontsize=10, bbox={"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 1.0}, zorder=4,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 5,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def _roofs_alone(
    peaks: Peaks,
    roofs: Mapping[str, float],
    xlim: tuple[float, float],
    ylim: tuple[float, float],
    title: str,
) -> tuple[Any, Any]:
    """(figure, axes) with the lines of a roofline and their labels: bandwidths, and `roofs` in FLOP/s by precision."""
    import matplotlib.pyplot as plt

    (left, right), (bottom, ceiling) = xlim, ylim
    top, bandwidth, l2 = max(roofs.values()), peaks.copy_bytes_per_s, peaks.l2_copy_bytes_per_s
    # fixed margins, no layout engine: the label of the memory roof needs its slope on the page
    figure, axes = plt.subplots(figsize=(WIDTH, 4.8))
    figure.subplots_adjust(left=0.09, right=0.735, bottom=0.12, top=0.92 if title else 0.97)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, ceiling))
    axes.set_xlabel("FLOP per byte, from the shape")
    axes.set_ylabel("FLOP/s, measured")
    axes.set_title(title, fontsize=11)
    axes.grid(which="major", color="0.92", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)

    ridge = top / bandwidth
    axes.plot([left, ridge], [left * bandwidth, top], color="black", linewidth=1.4, zorder=1)
    box = axes.get_window_extent()
    slope = math.degrees(math.atan2(box.height / math.log10(ceiling / bottom), box.width / math.log10(right / left)))
    start = left * (right / left) ** 0.03
    lines = [(f"memory: copies at {_engineering(bandwidth, 'B/s')}", bandwidth, "bottom")]
    if l2 is not None:  # one label above both lines, one below both: the lines may be near each other
        lines = [
            (f"L2: copies at {_engineering(l2, 'B/s')}", l2, "bottom"),
            (f"DRAM: copies at {_engineering(bandwidth, 'B/s')}", bandwidth, "top"),
        ]
        axes.plot([left, top / l2], [left * l2, top], color="black", linewidth=1.4, linestyle="--", zorder=1)
    for words, value, side in lines:
        axes.annotate(
            words, (start, start * value), (-4, 8) if side == "bottom" else (6, -6),
            textcoords="offset points", rotation=slope, rotation_mode="anchor", ha="left", va=side, fontsize=10,
        )  # fmt: skip
    nearest = bandwidth if l2 is None else l2
    for value, names in _levels(roofs):  # labels at their right ends, outside the axes, where there are no points
        for name in names:
            axes.plot([roofs[name] / nearest, right], [roofs[name]] * 2, color="black", linewidth=1.4, zorder=1)
        label = "\n".join(f"{_ROOFS[name]}: {_engineering(roofs[name], 'FLOP/s')}" for name in names)
        axes.annotate(
            label, (right, value), (5, 0), textcoords="offset points", ha="left", va="center", fontsize=10,
            annotation_clip=False,
        )  # fmt: skip
    return figure, axes


def _levels(roofs: Mapping[str, float]) -> list[tuple[float, list[str]]]:
    """(height, names) of the roofs' labels, highest first; roofs too close for separate labels share one."""
    groups: list[list[str]] = []
    for name in sorted(roofs, key=lambda name: -roofs[name]):
        if groups and roofs[groups[-1][-1]] / roofs[name] < 1.6:
            groups[-1].append(name)
        else:
            groups.append([name])
    return [(math.sqrt(roofs[group[0]] * roofs[group[-1]]), group) for group in groups]


# ---- Along a network


def along(rows: Mapping[str, Sequence[float]], kinds: Sequence[str], xlabel: str) -> Any:
    """Rows of bars, one bar per kernel or layer in the order of the network, in the colours of their kinds.

    rows: values by the row's label, as many as kinds. Returns a Matplotlib figure. ValueError for another number.
    """
    import matplotlib.pyplot as plt

    if any(len(values) != len(kinds) for values in rows.values()):
        raise ValueError(f"each row must have {len(kinds)} values, one per kind")
    figure, panels = plt.subplots(
        len(rows), 1, figsize=(WIDTH, 0.6 + 2.0 * len(rows)), sharex=True, layout="constrained", squeeze=False
    )
    colours = _colours(kinds)
    for axes, (label, values) in zip(panels[:, 0], rows.items(), strict=True):
        for kind in _ordered(kinds):
            places = [i for i, one in enumerate(kinds) if one == kind]
            axes.bar(places, [values[i] for i in places], color=colours[kind], label=kind)
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    panels[-1, 0].set_xlabel(xlabel)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        ncols=9,
        fontsize=10,
        frameon=False,
        loc="outside upper center",
        columnspacing=0.9,
        handlelength=1.2,
    )
    plt.close(figure)
    return figure


def intensities(panels: Mapping[str, Sequence[float]], kinds: Sequence[str], ridges: Mapping[str, float]) -> Any:
    """FLOPs per byte of each kernel in the order of the network, one panel per title, on a logarithmic axis.

    ridges: ridge points by label, drawn as horizontal lines and labelled at the right margin, where no points are.
    Values of 0 are left out. Returns a Matplotlib figure.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.8), sharey=True, layout="constrained", squeeze=False)
    colours = _colours(kinds)
    for panel, (title, values) in zip(axes[0], panels.items(), strict=True):
        for kind in _ordered(kinds):
            places = [i for i, one in enumerate(kinds) if one == kind and values[i] > 0]
            if places:
                panel.plot(places, [values[i] for i in places], "o", color=colours[kind], markersize=5, label=kind)
        for value in ridges.values():
            panel.axhline(value, color="black", linewidth=1)
        panel.set(yscale="log", title=title, xlabel="kernel, in the order of the network")
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    for label, value in ridges.items():
        axes[0, -1].annotate(
            label, (1, value), (5, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            fontsize=10, annotation_clip=False,
        )  # fmt: skip
    axes[0, 0].set_ylabel("FLOP per byte")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=7, fontsize=10, frameon=False, loc="outside upper center")
    plt.close(figure)
    return figure


# ---- Bars


def bars(
    times: Mapping[str, Mapping[str, float]],
    *,
    floors: Mapping[str, float] | None = None,
    vertical: bool = False,
    title: str = "",
    unit: str = "µs",
) -> Any:
    """Stacked bars, one per name, with one segment per kind: {"cudnn": {"expand": 120.0, …}, …}. A Matplotlib figure.

    floors: the roofline time by name, drawn as a black line; not needed for every name. Horizontal bars are labelled
    with their sums and suit a few implementations; vertical ones suit the many layers of a network.
    """
    import matplotlib.pyplot as plt

    if not times:
        raise ValueError("times must hold at least one bar, got none")
    names, places, sums = list(times), range(len(times)), [0.0] * len(times)
    kinds = _ordered(kind for parts in times.values() for kind in parts)
    colours = _colours(kinds)
    size = (WIDTH, 4.6) if vertical else (WIDTH, 1.2 + 0.42 * len(names))
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    for kind in kinds:
        lengths = [times[name].get(kind, 0.0) for name in names]
        style: dict[str, Any] = {"color": colours[kind], "label": kind, "edgecolor": "white", "linewidth": 0.4}
        if vertical:
            axes.bar(places, lengths, bottom=sums, width=0.8, **style)
        else:
            axes.barh(places, lengths, left=sums, height=0.7, **style)
        sums = [a + b for a, b in zip(sums, lengths, strict=True)]
    known = [(i, floors[name]) for i, name in enumerate(names) if floors and name in floors]
    if known:
        across = list(zip(*known, strict=True))
        marker: dict[str, Any] = {
            "color": "black",
            "linestyle": "none",
            "label": "roofline bound",
            "markeredgewidth": 1.6,
        }
        if vertical:
            axes.plot(*across, marker="_", markersize=max(3.0, min(20.0, 300 / len(names))), **marker)
        else:
            axes.plot(*reversed(across), marker="|", markersize=18, **marker)
    if vertical:
        axes.set_xticks(places, names, rotation=90, fontsize=8 if len(names) > 24 else 10)
        axes.set(ylabel=unit, xlim=(-0.6, len(names) - 0.4), ylim=(0, 1.06 * max(sums)))
        axes.spines[["top", "right"]].set_visible(False)
    else:
        _label_bars(axes, names, sums, [_three_digits(total) for total in sums], unit)
    axes.set_title(title, fontsize=11, loc="left")
    if len(kinds) > 1 or known:
        place: Any = {"loc": "outside right upper"} if vertical else {"ncols": 5, "loc": "outside lower center"}
        entries = zip(*axes.get_legend_handles_labels(), strict=True)
        ordered = zip(*sorted(entries, key=lambda entry: entry[1] == "roof"), strict=True)  # roof: last
        figure.legend(*ordered, frameon=False, fontsize=10, markerscale=0.6, **place)
    plt.close(figure)
    return figure


IMPLEMENTATIONS = {  # of the whole network: colour, marker
    "ours": ("#009e73", "o"), "torch-eager": ("#e69f00", "v"), "torch-graph": ("#d55e00", "^"),
    "torch-compile": ("#56b4e9", "P"), "xla": ("#cc79a7", "s"), "cudnn": ("#0072b2", "D"),
    "onnxruntime-cuda": ("#999999", "X"), "tensorrt": ("#555555", "*"), "ours-fma": ("#b2dfd0", "o"),
}  # fmt: skip


def peers(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records of the suite "network": µs per batch over the batch size, one panel per precision. A Matplotlib figure.

    Each implementation is shown with its fastest layout and launch.
    """
    import matplotlib.pyplot as plt

    from .tables import BATCHES, PRECISIONS
    from .tables import IMPLEMENTATIONS as NAMES

    measured = {r["precision"] for r in records}
    precisions = [one for one in PRECISIONS if one != "int8" or one in measured]
    figure, panels = plt.subplots(1, len(precisions), figsize=(1.17 * WIDTH, 4.3), sharey=True, layout="constrained")
    shown: dict[str, Any] = {}
    for panel, precision in zip(panels, precisions, strict=True):
        for name, (colour, marker) in IMPLEMENTATIONS.items():
            best: dict[int, float] = {}
            for r in records:
                if (r["implementation"], r["precision"]) == (name, precision):
                    best[r["batch"]] = min(r["median_us"], best.get(r["batch"], math.inf))
            between = [batch for batch in BATCHES if best and min(best) < batch < max(best)]
            line = sorted({**dict.fromkeys(between, math.nan), **best}.items())  # NaN: gaps
            if line:
                (shown[NAMES[name]],) = panel.plot(*zip(*line, strict=True), color=colour, marker=marker, markersize=5)
        panel.set(xscale="log", yscale="log", title=precision, xlabel="batch")
        panel.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
        panel.minorticks_off()
        panel.grid(color="0.9")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("µs per batch, median")
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def chain(records: Sequence[Mapping[str, Any]], peaks: Peaks) -> Any:
    """Records of the suite "chain": one dot per rung at its µs, one panel per precision and batch.

    The axis is logarithmic and begins at the roof, so a line from there to a dot shows the distance from the roof, see
    chain_roof. Returns a Matplotlib figure. ValueError without records.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if not records:
        raise ValueError("records must be at least one, got none")
    groups = grouped(sorted(records, key=lambda r: (r["batch"], r["precision"], r["rung"])), "batch", "precision")
    rows = max(len(group) for group in groups.values())
    columns = min(2, len(groups))
    lines = -(-len(groups) // columns)
    size = (1.17 * WIDTH, lines * (1.1 + 0.36 * rows))
    figure, panels = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for panel in list(panels.flat)[len(groups) :]:
        panel.set_visible(False)
    for panel, ((batch, precision), group) in zip(panels.flat, groups.items(), strict=False):
        roof = chain_roof(group, peaks)
        names, values = [r["implementation"] for r in group], [r["median_us"] for r in group]
        panel.hlines(range(len(names)), roof, values, color="0.8", linewidth=1.5)
        panel.plot(values, range(len(names)), "o", color=COLOURS["expand"], markersize=7)
        texts = [f"{_three_digits(value)}   {value / roof:.3g}× the roof" for value in values]
        _label_bars(panel, names, values, texts, "µs, logarithmic; the axis begins at the roof")
        panel.set_xscale("log")
        panel.set_xlim(roof, roof * (max(values) / roof) ** 1.8)
        panel.xaxis.set_major_locator(LogLocator())
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_title(f"batch {batch}, {precision}: the roof is {_three_digits(roof)} µs", fontsize=10, loc="left")
    plt.close(figure)
    return figure


def chain_roof(records: Sequence[Mapping[str, Any]], peaks: Peaks) -> float:
    """The roof of a chain in µs: the time for the fewest bytes of all rungs, or for the FLOPs, whichever is longer."""
    return min(roof_us(Work(r["bytes"], r["flops"]), roof_of(r["arithmetic"]), peaks) for r in records)


def sparse(records: Sequence[Mapping[str, Any]]) -> Any:
    """Timed records of the suite "sparse": for how many shapes skipping pays, and the times of one shape.

    Left: against the share of zeros, the share of all shapes and batches for which a kernel that skips zeros is faster
    than all that skip nothing; one line per precision and pattern of zeros. Right: µs against the share of zeros for
    the largest shape where one is, or for the first. Returns a Matplotlib figure. ValueError without records.
    """
    import matplotlib.pyplot as plt

    from .tables import break_even, sparse_times

    groups = grouped(records, "precision", "shape", "batch", "pattern")
    groups = {key: group for key, group in groups.items() if len(sparse_times(group, key[3])) > 1}
    if not groups:
        raise ValueError("records must hold a sweep over sparsities, got none")
    meets = {key: break_even(group, key[3], "dense") for key, group in groups.items()}
    figure, (left, right) = plt.subplots(1, 2, figsize=(1.17 * WIDTH, 4.4), layout="constrained")
    kinds = list(dict.fromkeys((precision, pattern) for precision, _, _, pattern in groups))
    for (precision, pattern), colour in zip(kinds, itertools.cycle(_OTHERS), strict=False):
        every = [meet for key, meet in meets.items() if (key[0], key[3]) == (precision, pattern)]
        pays = sorted(100 * meet for meet in every if meet is not None)
        xs, ys = [0.0, *pays, 100.0], [100 * i / len(every) for i in (*range(len(pays) + 1), len(pays))]
        left.step(xs, ys, where="post", color=colour, linewidth=2, label=f"{precision}, zero {pattern}")
    left.set(xlim=(0, 100), ylim=(-2, 102), xlabel="zeros, %", ylabel="shapes for which skipping pays, %")
    left.legend(frameon=False, fontsize=9, loc="upper left")

    having = [key for key in groups if meets[key]]
    key = max(having, key=lambda key: groups[key][0]["flops"]) if having else next(iter(groups))
    times = sparse_times(groups[key], key[3])
    names = [name for name in dict.fromkeys(n for us in times.values() for n in us) if name == "cudnn" or "/" in name]
    titles = {"cudnn": "cuDNN", "dense": "twin of ballot, pixels", "dense_tiles": "twin of tiles"}
    for name, colour in zip(names, itertools.cycle(_OTHERS), strict=False):
        shown = [(100 * sparsity, us[name]) for sparsity, us in times.items() if name in us]
        style, scheme = "--" if "dense" in name else "-", name.removeprefix("sparse/")
        label = titles.get(scheme, scheme)
        right.plot(*zip(*shown, strict=True), style, marker="o", markersize=3, color=colour, label=label)
    right.set(yscale="log", xlabel=f"zero {key[3]}, %", ylabel="µs, median")
    right.set_title(f"{key[1].replace('>', '→')}, batch {key[2]}, {key[0]}", fontsize=10, loc="left")
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


def zeros(records: Sequence[Mapping[str, Any]]) -> Any:
    """Activations of the suite "sparse": the share of zeros in each convolution's input, one panel per network.

    Returns a Matplotlib figure. ValueError without records.
    """
    import matplotlib.pyplot as plt

    if not records:
        raise ValueError("records must be at least one, got none")
    networks = grouped(sorted(records, key=lambda r: r["order"]), "network", "label")
    size = (WIDTH, 0.6 + 1.9 * len(networks))
    figure, panels = plt.subplots(len(networks), 1, figsize=size, sharey=True, squeeze=False, layout="constrained")
    named = {"elements": "elements", "groups_8": "8 channels of a pixel", "groups_32": "32 channels of a pixel",
             "pixels": "whole pixels", "tiles_4": "4×4 pixels × 32 channels"}  # fmt: skip
    for axes, ((network, label), rows) in zip(panels[:, 0], networks.items(), strict=True):
        for (key, name), colour in zip(named.items(), _OTHERS, strict=False):
            axes.plot([r["order"] for r in rows], [100 * r[key] for r in rows], ".-", color=colour, label=name)
        axes.set_title(f"{network}, {label}", fontsize=10, loc="left")
        axes.set_ylabel("zeros, %")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xlabel("convolution, in the order in which they run")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    plt.close(figure)
    return figure


def outputs(kinds: Sequence[str], sizes: Sequence[int]) -> Any:
    """Bars: million elements of each convolution's output, in execution order, coloured by kind. A Matplotlib figure.

    kinds: "stem, head", "expand", "depthwise" or "project", one per convolution; a line marks the end of the first
    convolution and of each block. ValueError for other kinds, or unless there is one size per kind.
    """
    import matplotlib.pyplot as plt

    colours = {"stem, head": COLOURS["stem"]} | {kind: COLOURS[kind] for kind in ("expand", "depthwise", "project")}
    if unknown := set(kinds) - set(colours):
        raise ValueError(f"kinds must be among {', '.join(map(repr, colours))}, got {sorted(unknown)[0]!r}")
    if len(kinds) != len(sizes):
        raise ValueError(f"kinds and sizes must have one item per convolution, got {len(kinds)} and {len(sizes)}")
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    for kind, colour in colours.items():
        places = [i for i, other in enumerate(kinds) if other == kind]
        axes.bar(places, [sizes[i] / 1e6 for i in places], color=colour, label=kind)
    for i, kind in enumerate(kinds):
        if i == 0 or kind == "project":
            axes.axvline(i + 0.5, color="0.6", linewidth=0.5, zorder=0)
    axes.set(xlabel="convolution, in execution order", ylabel="million elements of output", xlim=(-1, len(kinds)))
    axes.legend(framealpha=1, facecolor=CARD, edgecolor="none")  # over the lines between blocks
    axes.spines[["top", "right"]].set_visible(False)
    plt.close(figure)  # shown once, by `show`
    return figure


def ladder(
    times: Mapping[str, float],
    *,
    floors: Mapping[str, float] | None = None,
    peers: Collection[str] = (),
    title: str = "",
    unit: str = "µs",
) -> Any:
    """The rungs of a ladder from top to bottom, each with its time and its speedup over the first. A Matplotlib figure.

    floors: roofline times by name, drawn as lines; the share of the roof reached is printed after the time. peers: the
    names in `times` that are not rungs. If the slowest takes more than 20 times as long as the fastest, the axis is
    logarithmic, with dots in the place of bars.
    """
    import matplotlib.pyplot as plt

    if not times:
        raise ValueError("times must hold at least one rung, got none")
    names, values = list(times), list(times.values())
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.42 * len(names)), layout="constrained")
    colours = [COLOURS["pool" if name in peers else "expand"] for name in names]
    start, scaled = 0.0, logarithmic(values)
    if scaled:  # without a zero the length of a bar would say nothing: dots
        start = min([*values, *(floors or {}).values()]) / 2
        for i, (value, colour) in enumerate(zip(values, colours, strict=True)):
            axes.plot([value], [i], "o", color=colour, markersize=9)
            axes.axhline(i, color="0.85", linewidth=0.8, zorder=0)
    else:
        axes.barh(range(len(names)), values, height=0.7, color=colours)
    texts = [f"{_three_digits(value)}   {values[0] / value:.2f}×" for value in values]
    if floors is not None:
        texts = [f"{text}   {percent(floors[name] / times[name])}" for name, text in zip(names, texts, strict=True)]
        roofs = " and ".join(f"{_three_digits(floor)} {unit}" for floor in sorted(set(floors.values()), reverse=True))
        line: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": "--"}
        for i, name in enumerate(names):
            label = f"roof: {roofs}, and the share of it that is reached" if i == 0 else None
            axes.plot([floors[name]] * 2, [i - 0.5, i + 0.5], label=label, **line)
        figure.legend(frameon=False, fontsize=10, loc="outside lower center")
    _label_bars(axes, names, values, texts, f"{unit}, logarithmic" if scaled else unit)
    if scaled:
        axes.set_xscale("log")
    # room for the labels, the same share of the axis in either scale
    axes.set_xlim(start, start * (max(values) / start) ** 1.3 if scaled else 1.3 * max(values))
    axes.set_title(title, fontsize=11, loc="left")
    plt.close(figure)
    return figure


def logarithmic(values: Sequence[float]) -> bool:
    """Whether `ladder` has a logarithmic axis for these values."""
    return max(values) > 20 * min(values)


def _label_bars(axes: Any, names: Sequence[str], lengths: Sequence[float], texts: Sequence[str], unit: str) -> None:
    """Horizontal bars from top to bottom, with a label after each."""
    for i, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        axes.annotate(text, (length, i), (8, 0), textcoords="offset points", va="center", fontsize=10,
                      bbox={"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 0.5})  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel=unit, xlim=(0, max(lengths) * 1.18), ylim=(len(names) - 0.5, -0.5))
    axes.spines[["top", "right"]].set_visible(False)


def percent(share: float) -> str:
    """A share in percent: two significant digits below 10 %, else whole percent: "2.5 %", "97 %"."""
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.2g} %"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ---- In a notebook

CARD, INK = "#f0f0ec", "#222222"  # background of every plot, the same in light and dark themes; colour of its text


def style() -> None:
    """Set Matplotlib's defaults for the notebooks: colours, and sizes that are readable in a narrow window."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update({
        "figure.dpi": 110, "figure.facecolor": CARD, "axes.facecolor": CARD, "savefig.facecolor": CARD,
        "legend.facecolor": CARD, "font.size": 11.0, "axes.titlesize": 12.0, "legend.fontsize": 11.0,
        "xtick.labelsize": 11.0, "ytick.labelsize": 11.0, "axes.prop_cycle": cycler(color=_OTHERS),
        **dict.fromkeys(["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK),
    })  # fmt: skip


def show(figure: Any, alt: str, records: Iterable[Mapping[str, Any]] = ()) -> None:
    """Show a Matplotlib figure in a notebook with its alternative text, and close it.

    alt: describes the axes, the curves or bars, and what they show. Outside a notebook, it is printed. records: those
    that it shows; their digest stands in the output, so that a test sees a picture of older ones. The picture is
    scaled down to the window; below MIN_WIDTH pixels it scrolls sideways, so its text stays readable.
    TypeError if `figure` is not a figure, ValueError if `alt` is empty.
    """
    import matplotlib.pyplot as plt
    from IPython.display import display
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a Matplotlib figure, got {type(figure).__name__}")
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt must say what the figure shows, got {alt!r}")
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight", facecolor=CARD, metadata={"Software": None})
    plt.close(figure)
    records = list(records)
    shown = digest(records)[:16] if records else None
    display({"text/html": _card(file.getvalue(), alt, shown), "text/plain": alt}, raw=True)


MIN_WIDTH = 720  # pixels; 11 points of a figure WIDTH inches wide are 9 points then


def _card(png: bytes, alt: str, records: str | None = None) -> str:
    width = int.from_bytes(png[16:20], "big")
    data = f" data-records='{records}'" if records else ""
    return (
        f"<div style='overflow-x:auto'{data}><img alt=\"{html.escape(alt)}\" style='background:{CARD};"
        f"border-radius:8px;padding:8px;box-sizing:border-box;max-width:100%;min-width:{min(width, MIN_WIDTH)}px' "
        f"src='data:image/png;base64,{base64.b64encode(png).decode('ascii')}'></div>"
    )


# ---- Files


def digest(records: Iterable[Mapping[str, Any]]) -> str:
    """A hash of records that does not depend on their order."""
    texts = sorted(json.dumps(r, sort_keys=True, ensure_ascii=True) for r in records)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def save_svg(figure: Any, path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a figure as SVG with the digest of its records; the same figure gives the same bytes."""
    import matplotlib as mpl

    # without a fixed salt, Matplotlib's identifiers would differ in every file
    with mpl.rc_context({"svg.hashsalt": "mobilenetv2-engine-course", "svg.fonttype": "path"}):
        metadata = {"Date": None, "Creator": "Matplotlib", "Description": f"records sha256:{digest(records)}"}
        with replacing(path) as file:
            figure.savefig(file, format="svg", metadata=metadata)


def digest_of(path: Path) -> str:
    """The digest of records in an SVG file of save_svg. ValueError if there is none."""
    found = re.search(r"records sha256:([0-9a-f]{64})", path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path.name} does not say which records it shows: common.report.plots.save_svg writes it")
    return found[1]
