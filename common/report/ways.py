"""A plot of the suite "plans": the time of each description of a convolution, by precision and layout."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import plots

ORDER = (
    "conv + bias + ReLU6",
    "conv + bias + ReLU | ReLU6",
    "conv | bias + ReLU6",
    "conv + identity + bias + ReLU6",
)
_COLOURS = {"fp32": "#0072b2", "tf32": "#009e73", "fp16": "#d55e00"}
_MARKERS = {"NCHW": "o", "NHWC": "s"}  # NCHW hollow, NHWC filled


def dots(records: Sequence[Mapping[str, Any]]) -> Any:
    """One panel per operator: a dot for each description, precision and layout, µs on a logarithmic axis.

    records: of the suite "plans". Returns a Matplotlib figure. ValueError without records.
    """
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(record["operator"] for record in records))
    if not cases:
        raise ValueError("records must be at least one, got none")
    figure, panels = plt.subplots(
        1, len(cases), figsize=(plots.WIDTH * 1.2, 4.6), sharey=True, sharex=True, layout="constrained", squeeze=False
    )
    for axes, case in zip(panels[0], cases, strict=True):
        for p, (precision, colour) in enumerate(_COLOURS.items()):
            for layout, marker in _MARKERS.items():
                found = [
                    r for r in records if (r["operator"], r["precision"], r["layout"]) == (case, precision, layout)
                ]
                places = [ORDER.index(r["way"]) + 0.22 * (p - 1) + (0.07 if layout == "NHWC" else -0.03) for r in found]
                fill = colour if layout == "NHWC" else "none"
                label = f"{precision} {layout}"
                times = [r["median_us"] for r in found]
                axes.scatter(
                    times, places, s=58, marker=marker, facecolor=fill, edgecolor=colour, label=label, zorder=3
                )
        axes.set(xscale="log", xlabel="µs, logarithmic")
        axes.set_xticks([2, 5, 10, 20, 50, 100, 200], ["2", "5", "10", "20", "50", "100", "200"], minor=False)
        axes.xaxis.set_minor_locator(plt.NullLocator())
        axes.set_title(case, fontsize=11)
        axes.grid(axis="x", color="0.85", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    names = [way.replace(" | ", "\n| ").replace(" + bias", "\n+ bias", 1) for way in ORDER]
    panels[0][0].set_yticks(range(len(ORDER)), names)
    panels[0][0].invert_yaxis()
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6, frameon=False, fontsize=10)
    return figure


def alt(records: Sequence[Mapping[str, Any]]) -> str:
    """The alternative text of `dots`: the fastest and the slowest description of each operator in each precision."""
    lines = []
    for case in dict.fromkeys(record["operator"] for record in records):
        parts = []
        for precision in _COLOURS:
            found = sorted(find_in(records, case, precision), key=lambda record: record["median_us"])
            if found:
                first, last = found[0], found[-1]
                parts.append(
                    f"{precision} from {first['median_us']:.3g} µs ({first['way']}, {first['layout']}) to"
                    f" {last['median_us']:.3g} µs ({last['way']}, {last['layout']})"
                )
        lines.append(f"{case}: {'; '.join(parts)}")
    return f"Dots of µs, logarithmic, one panel per operator, one row per description. {'. '.join(lines)}."


def find_in(records: Sequence[Mapping[str, Any]], case: str, precision: str) -> list[Mapping[str, Any]]:
    """The records of one operator in one precision."""
    return [r for r in records if (r["operator"], r["precision"]) == (case, precision)]
