"""NCHW and NHWC side by side, from records: kernels, whole networks, cuDNN's layers (chapter 06).

in_both(recorded, "fp16", 32, rung="naive")    {(operator, case): (µs in NCHW, µs in NHWC)}
draw(recorded, cases, 32)                      each layer's best rungs in both layouts
networks(recorded)                             {(implementation, precision, batch): (µs in NCHW, µs in NHWC)}
"""

import math
from collections.abc import Sequence

from . import plots, tables
from .results import Record, Results, find

Both = tuple[float, float]  # µs in NCHW, in NHWC
OPERATORS = ("pointwise", "depthwise", "conv2d")


def _pairs(times: dict, key: tuple, layout: str, us: float) -> None:
    of_layout = times.setdefault(key, {})
    of_layout[layout] = min(us, of_layout.get(layout, math.inf))


def _complete(times: dict) -> dict[tuple, Both]:
    return {key: (one["NCHW"], one["NHWC"]) for key, one in times.items() if len(one) == 2}


def in_both(
    recorded: Results, precision: str, batch: int, rung: str | None = None, operators: Sequence[str] = OPERATORS
) -> dict[tuple[str, str], Both]:
    """By (operator, case), the shortest times of its rungs, or of one rung, where both layouts are recorded."""
    times: dict[tuple, dict[str, float]] = {}
    for r in find(recorded, suite="kernels", precision=precision, batch=batch):
        if r["operator"] in operators and rung in (None, r["implementation"].split("/")[-1]):
            _pairs(times, (r["operator"], r["case"]), r["layout"], r["median_us"])
    return _complete(times)


def layers(recorded: Results, precision: str, batch: int) -> dict[str, Both]:
    """By case, the shortest times of all operators that compute this layer."""
    best: dict[str, Both] = {}
    for (_, case), (nchw, nhwc) in in_both(recorded, precision, batch).items():
        before = best.get(case, (math.inf, math.inf))
        best[case] = min(nchw, before[0]), min(nhwc, before[1])
    return best


def networks(recorded: Results) -> dict[tuple[str, str, int], Both]:
    """By (implementation, precision, batch), MobileNetV2's times from a CUDA graph, where both layouts are recorded."""
    times: dict[tuple, dict[str, float]] = {}
    for r in find(recorded, suite="network", case=tables.NETWORK, launch="graph", mode="hot"):
        _pairs(times, (r["implementation"], r["precision"], r["batch"]), r["layout"], r["median_us"])
    return _complete(times)


def cudnn_losses(recorded: Results, precision: str, batch: int) -> tuple[list[tuple[Record, Record]], int]:
    """(cuDNN's layers that are slower in NHWC, as (NCHW, NHWC) records; how many layers are recorded in both)."""
    times: dict[str, dict[str, Record]] = {}
    for r in find(recorded, suite="operators", implementation="cudnn", precision=precision, batch=batch):
        times.setdefault(r["case"], {})[r["layout"]] = r
    both = [(one["NCHW"], one["NHWC"]) for one in times.values() if len(one) == 2]
    return [(nchw, nhwc) for nchw, nhwc in both if nhwc["median_us"] > nchw["median_us"]], len(both)


def draw(recorded: Results, cases: Sequence[str], batch: int) -> None:
    """Show each layer's time in NCHW over its time in NHWC, with the best rungs of each: dots, coloured by kind.

    cases: the layers from left to right, as the records name them; those without records are left out.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(plots.WIDTH, 3.6), sharey=True, layout="constrained")
    said = []
    for panel, precision in zip(panels, ("fp32", "fp16"), strict=True):
        best = layers(recorded, precision, batch)
        known = [case for case in cases if case in best]
        gains = [best[case][0] / best[case][1] for case in known]
        for kind in dict.fromkeys(case.split()[0] for case in known):
            chosen = [i for i, case in enumerate(known) if case.split()[0] == kind]
            shown = [gains[i] for i in chosen]
            panel.plot(chosen, shown, "o", color=plots.COLOURS[kind], markersize=6, label=kind)
            said.append(f"{precision} {kind} {min(shown):.2f} to {max(shown):.2f}")
        panel.axhline(1, color=plots.INK, linewidth=1, linestyle="--")
        panel.set_title(f"{precision}, batch {batch}", fontsize=11, loc="left")
        panel.set(yscale="log", xlabel="layers, in the order of the network", xticks=[])
        panel.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        panel.minorticks_off()
        panel.grid(axis="y", color="0.88")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("µs in NCHW / µs in NHWC")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=len(labels), loc="outside lower center")
    plots.show(figure, f"Time in NCHW over time in NHWC per layer, on a logarithmic axis. {', '.join(said)}.")
