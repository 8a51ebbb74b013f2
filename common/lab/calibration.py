"""The calibration plot: each guess of a learner relative to the value, by chapter."""

from pathlib import Path
from typing import Any

from . import predict

PICTURE = "calibration.svg"
CHAPTER_COLORS = {"01": "#0072b2", "02": "#e69f00", "03": "#009e73", "04": "#d55e00", "05": "#56b4e9", "06": "#cc79a7"}
MARKERS = dict(zip(CHAPTER_COLORS, "osD^vP", strict=True))


def ratios(predictions: dict[str, Any]) -> dict[str, list[float]]:
    """guess / value of every revealed number, in the order of guessing, by chapter ("01").

    predictions: the section of that name in the learner's progress.
    """
    found: dict[str, list[float]] = {}
    for entry in predictions.values():
        times = predict.ratio(entry)
        if times is not None:
            found.setdefault(entry["chapter"][:2], []).append(times)
    return dict(sorted(found.items()))


def alt(predictions: dict[str, Any]) -> str:
    """The alternative text of the plot."""
    counts = [times for chapter in ratios(predictions).values() for times in chapter]
    near = sum(0.5 <= times <= 2 for times in counts)
    return f"Your guesses over the values, one dot per prediction: {near} of {len(counts)} within a factor of 2"


def figure(predictions: dict[str, Any]) -> Any:
    """The plot as a matplotlib Figure: one dot per revealed number, guess / value on a logarithmic axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plot = Figure(figsize=(8, 2.6), layout="constrained")
    axes = plot.add_subplot()
    axes.axhspan(0.5, 2, color="#009e73", alpha=0.15, linewidth=0)
    axes.axhline(1, color="#808080", linewidth=1)
    place = 0
    for chapter, counts in ratios(predictions).items():
        places = range(place, place + len(counts))
        color = CHAPTER_COLORS.get(chapter, "#808080")
        axes.plot(places, counts, MARKERS.get(chapter, "o"), color=color, label=f"chapter {chapter}")
        place += len(counts)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="predictions, in order", ylabel="guess / value", xticks=[])
    axes.legend(frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    return plot


def write(work: Path, predictions: dict[str, Any]) -> None:
    """Write the plot to PICTURE in the folder `work`, unless no number is revealed yet or matplotlib is missing."""
    if not ratios(predictions):
        return
    try:
        plot = figure(predictions)
    except ImportError:
        return
    plot.savefig(work / PICTURE, metadata={"Date": None})
