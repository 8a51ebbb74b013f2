"""Plots about measuring: eager launches beside CUDA graphs, samples, two subjects in two orders, steps and their roofs.

    launch_cost(records)                    µs per batch, eager and in a CUDA graph
    samples(times, warm_up)                 each sample of one benchmark, in the order taken
    orders({"A, then B": rounds, …})        samples and ratios of A and B, for each order
    steps(records, precision, peaks)        µs of each different step, beside its roof
    steps_in_words(records, precision, peaks)   the same as text
    kinds(records)                          the share of each kind of layer in the time of all steps
    lanes(records)                          recorded timelines, for draw.timeline

All but `lanes` and `steps_in_words` return a Matplotlib figure.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..measure.roofline import Peaks, Work, roof_us
from ..measure.timeline import Slice
from .plots import COLOURS, WIDTH
from .results import grouped
from .tables import BATCHES, us

FP32, FP16, EMPHASIS = "#0072b2", "#d55e00", "#d55e00"
_PAIRS = {"cuDNN, layer by layer": ("cudnn", "cudnn"), "PyTorch": ("torch-eager", "torch-graph")}


def _bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def launch_cost(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records of the suite "network" in NHWC: µs per batch over the batch size, eager and in a CUDA graph."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.9), sharey=True, layout="constrained")
    for panel, (title, names) in zip(panels, _PAIRS.items(), strict=True):
        for precision, colour in (("fp32", FP32), ("fp16", FP16)):
            for name, launch, style in zip(names, ("eager", "graph"), ("v--", "D-"), strict=True):
                wanted = (name, precision, launch, "NHWC", "hot")
                keys = ("implementation", "precision", "launch", "layout", "mode")
                line = sorted((r["batch"], r["median_us"]) for r in records if tuple(r[k] for k in keys) == wanted)
                label = f"{precision}, {'eager' if launch == 'eager' else 'CUDA graph'}"
                panel.plot(*zip(*line, strict=True), style, color=colour, markersize=5, label=label)
        panel.set(xscale="log", yscale="log", xlabel="batch", title=title)
        panel.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
        panel.minorticks_off()
        panel.grid(color="0.9")
        _bare(panel)
    panels[0].set_ylabel("µs per batch, NHWC")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    plt.close(figure)
    return figure


def samples(times: Sequence[float], warm_up: int) -> Any:
    """Samples in µs in the order in which they were taken, on a logarithmic axis, the first `warm_up` shaded.

    ValueError if no sample is left after the warm-up.
    """
    import matplotlib.pyplot as plt

    if len(times) <= warm_up:
        raise ValueError(f"times must be more than the {warm_up} of the warm-up, got {len(times)}")
    figure, axes = plt.subplots(figsize=(WIDTH, 3.0), layout="constrained")
    axes.plot(times, ".", color=FP32, markersize=6)
    if warm_up:
        axes.axvspan(-0.8, warm_up - 0.5, color="0.88", label="warm-up")
    axes.axhline(float(np.mean(times)), color=EMPHASIS, linewidth=1.4, label="mean of all samples")
    middle = float(np.median(times[warm_up:]))
    axes.axhline(middle, color="black", linewidth=1.4, linestyle="--", label="median without the warm-up")
    axes.set(xlabel="sample", ylabel="µs, logarithmic", yscale="log", xlim=(-0.8, len(times)))
    _plain_ticks(axes.yaxis)
    _bare(axes)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    plt.close(figure)
    return figure


def _plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis at 1, 2 and 5 times powers of ten, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def orders(experiments: Mapping[str, Sequence[tuple[str, float]]], truth: float = 1.0) -> Any:
    """Experiments with two subjects, A and B: {order: samples (name, µs) as taken}, equally many of both.

    Above, the samples; below, the ratio of the i-th samples of A and of B, their median, and the truth.
    """
    import matplotlib.pyplot as plt

    size = (WIDTH, 5.0)
    figure, rows = plt.subplots(2, len(experiments), figsize=size, sharey="row", layout="constrained", squeeze=False)
    for (above, below), (title, taken) in zip(rows.T, experiments.items(), strict=True):
        times = {name: np.array([us for who, us in taken if who == name]) for name in "AB"}
        for name, colour, marker in (("A", FP32, "o"), ("B", FP16, "^")):
            places = [i for i, (who, _) in enumerate(taken) if who == name]
            above.plot(places, times[name], marker, color=colour, markersize=4, label=name)
        ratios = times["A"] / times["B"]
        below.plot(ratios, "D", color="#555555", markersize=4, label="one round")
        median = float(np.median(ratios))
        below.axhline(median, color="black", linewidth=1.4, linestyle="--", label="median of the rounds")
        below.axhline(truth, color="#009e73", linewidth=1.4, label="the truth")
        above.set(title=title, xlabel="sample, in the order taken")
        below.set(xlabel="round")
        _bare(above)
        _bare(below)
    rows[0, 0].set_ylabel("µs")
    rows[1, 0].set_ylabel("A / B")
    above, below = (axes.get_legend_handles_labels() for axes in rows[:, 0])
    entries = above[0] + below[0], above[1] + below[1]
    figure.legend(*entries, loc="outside lower center", ncols=5, frameon=False)
    plt.close(figure)
    return figure


def _area(shape: str) -> int:
    """The pixels of a step's input, from its shape as text; 1 for the classifier."""
    sides = shape.split(" ")[0].split("×")
    return int(sides[0]) * int(sides[1]) if len(sides) == 2 else 1


def steps(records: Mapping[int, Sequence[Mapping[str, Any]]], precision: str, peaks: Peaks) -> Any:
    """Records of the suite "operators" by batch size: a row per different step, a panel per batch size.

    A dot is the time of the step, coloured by its kind; a bar across is its roof. Rows are grouped by the size of the
    image, and the axis is logarithmic.
    """
    import matplotlib.pyplot as plt

    first = next(iter(records.values()))
    names = [r["case"] for r in sorted(first, key=lambda r: -_area(r["shape"]))]
    size = (WIDTH, 1.1 + 0.25 * len(names))
    figure, panels = plt.subplots(1, len(records), figsize=size, sharey=True, layout="constrained", squeeze=False)
    for panel, (batch, found) in zip(panels.flat, records.items(), strict=True):
        for r in found:
            y, roof = names.index(r["case"]), roof_us(Work(r["bytes"], r["flops"]), precision, peaks)
            panel.plot([roof, r["median_us"]], [y, y], color="0.75", linewidth=1, zorder=1)
            panel.plot(roof, y, "|", color="black", markersize=9, markeredgewidth=1.6, label="roof", zorder=2)
            kind = r["kind"]
            panel.plot(r["median_us"], y, "o", color=COLOURS[kind], markersize=6, label=kind, zorder=3)
        panel.set(xscale="log", xlabel="µs, logarithmic", title=f"batch {batch}")
        _plain_ticks(panel.xaxis)
        panel.grid(axis="x", color="0.88")
        _bare(panel)
    areas = [_area(name.split(" ", 1)[1]) for name in names]
    for y in (i for i in range(1, len(areas)) if areas[i] != areas[i - 1]):
        for panel in panels.flat:
            panel.axhline(y - 0.5, color="0.75", linewidth=0.8)
    short = [name.replace("stride 2", "/2").replace("+residual", "+add").replace(">", "→") for name in names]
    panels[0, 0].set_yticks(range(len(names)), short, fontsize=9.5)
    panels[0, 0].set_ylim(len(names) - 0.4, -0.6)
    entries = dict(zip(*reversed(panels[0, 0].get_legend_handles_labels()), strict=True))
    order = [name for name in (*COLOURS, "roof") if name in entries]
    figure.legend([entries[name] for name in order], order, loc="outside lower center", ncols=4, frameon=False)
    plt.close(figure)
    return figure


def steps_in_words(records: Mapping[int, Sequence[Mapping[str, Any]]], precision: str, peaks: Peaks) -> str:
    """The alternative text of `steps`: per batch size and kind, the least and the largest time / roof."""
    parts = []
    for batch, found in records.items():
        times: dict[str, list[float]] = defaultdict(list)
        for r in found:
            times[r["kind"]].append(r["median_us"] / roof_us(Work(r["bytes"], r["flops"]), precision, peaks))
        kinds = ", ".join(
            f"{kind} {min(v):.1f}" + (f" to {max(v):.1f}" if len(v) > 1 else "")
            for kind, v in sorted(times.items(), key=lambda item: min(item[1]))
        )
        us = sorted(r["median_us"] for r in found)
        parts.append(f"Batch {batch}: steps take {us[0]:.3g} to {us[-1]:.3g} µs; in multiples of their roofs, {kinds}.")
    return (
        "One row per different step, grouped by image size, one panel per batch size; x is µs, logarithmic. A dot is"
        " the time, coloured by kind, a bar marks the roof. " + " ".join(parts)
    )


def kinds(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records of the suite "operators": the share of each kind of layer in the time of all steps, a bar per network."""
    import matplotlib.pyplot as plt

    groups = grouped(records, "precision", "batch")
    figure, axes = plt.subplots(figsize=(WIDTH, 1.3 + 0.45 * len(groups)), layout="constrained")
    sums: dict[Any, dict[str, float]] = {case: defaultdict(float) for case in groups}
    for case, found in groups.items():
        for r in found:
            sums[case][r["kind"]] += r["count"] * r["median_us"]
    totals = {case: sum(parts.values()) for case, parts in sums.items()}
    places = range(len(groups))
    reached = np.zeros(len(groups))
    for kind in (kind for kind in COLOURS if any(kind in parts for parts in sums.values())):
        widths = np.array([100 * parts[kind] / totals[case] for case, parts in sums.items()])
        style: dict[str, Any] = {"color": COLOURS[kind], "label": kind, "edgecolor": "white", "linewidth": 0.4}
        axes.barh(places, widths, left=reached, height=0.72, **style)
        reached += widths
    for place, total in zip(places, totals.values(), strict=True):
        axes.text(101, place, f"{us(total)} µs", va="center")
    axes.set_yticks(places, [f"{precision}, batch {batch}" for precision, batch in groups])
    axes.set(xlabel="% of the time of all 54 steps", xlim=(0, 116), ylim=(len(groups) - 0.5, -0.5))
    axes.set_xticks(range(0, 101, 20))
    _bare(axes)
    figure.legend(loc="outside lower center", ncols=7, frameon=False)
    plt.close(figure)
    return figure


# ---- Recorded timelines

_LANES = {  # titles, by (implementation, what its case begins with)
    "PyTorch, eager": ("torch-eager", "torch-eager,"), "PyTorch, CUDA graph": ("torch-graph", "torch-graph,"),
    "torch.compile": ("torch-compile", "torch-compile,"), "cuDNN, CUDA graph": ("cudnn", "cudnn,"),
    "ours, step by step": ("ours", "ours step by step,"), "ours, with all fusions": ("ours", "ours,"),
}  # fmt: skip


def lanes(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Slice]]:
    """Records of the suite "timeline", of one precision and batch size, as lanes for draw.timeline; {} without any.

    Each lane begins with its first kernel. Element-wise kernels that add a bias or convert are labelled "expand, bias",
    so that they are told from the layers' own.
    """
    found: dict[str, list[Slice]] = {}
    for title, (implementation, start) in _LANES.items():
        mine = [r for r in records if r["implementation"] == implementation and r["case"].startswith(start)]
        mine.sort(key=lambda r: r["order"])
        for r in mine:
            zero, launched = mine[0]["start_us"], r.get("launched_us")
            beside = "elementwise" in r["kernel"] and r["kind"] != "add" and "," not in r["kind"]
            label = f"{r['kind']}, bias" if beside else r["kind"]
            launched = None if launched is None or r["launch"] == "graph" else launched - zero
            one = Slice(r["kernel"], r["start_us"] - zero, r["us"], r["stream"], launched, r.get("host_us"), label)
            found.setdefault(title, []).append(one)
    return found
