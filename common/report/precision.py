"""Plots of notebook 06/4: relative errors of sums, and of whole networks in each arithmetic that counts as fp32."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from . import plots
from .results import Record

COLOURS = ("#e69f00", "#d55e00", "#cc79a7", "#009e73", "#56b4e9", "#0072b2")
MARKERS = "ovPsD^"


def by_length(lengths: Sequence[int], errors: Mapping[str, Sequence[float]]) -> None:
    """Show relative errors of sums, one line per way: {way: one error per length}, at most 6 ways.

    ValueError for none or more, and for a way with another number of errors.
    """
    if not 0 < len(errors) <= len(COLOURS):
        raise ValueError(f"errors must be of 1 to {len(COLOURS)} ways, got {len(errors)}")
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (name, row), colour, marker in zip(errors.items(), COLOURS, MARKERS, strict=False):
        if len(row) != len(lengths):
            raise ValueError(f"errors[{name!r}] must have {len(lengths)} numbers, got {len(row)}")
        axes.plot(lengths, row, color=colour, marker=marker, markersize=6, label=name)
    axes.set(xscale="log", yscale="log", xlabel="K, products per sum", ylabel="relative error of the sums")
    axes.set_xticks(lengths, [str(k) for k in lengths])
    axes.minorticks_off()
    axes.grid(color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    said = "; ".join(f"{name}: {row[0]:.0e} to {row[-1]:.0e}" for name, row in errors.items())
    plots.show(
        figure,
        "Relative error of sums against the number of products per sum, both logarithmic, one line per way. "
        f"From {lengths[0]} to {lengths[-1]} products: {said}.",
    )


def networks(records: Sequence[Record]) -> None:
    """Print records of the suite "errors", one line per implementation and arithmetic, one column per input."""
    cases = list(dict.fromkeys(r["case"] for r in records))
    found: dict[tuple[str, str], dict[str, float]] = {}
    for r in records:
        found.setdefault((r["implementation"], r["arithmetic"]), {})[r["case"]] = r["error"]
    for number, case in enumerate(cases, 1):
        print(f"({number}) {case}")
    print(f"{'':<66}" + "".join(f"{f'({i})':>10}" for i in range(1, len(cases) + 1)))
    for (implementation, arithmetic), row in found.items():
        numbers: list[Any] = [f"{row[case]:.2e}" if case in row else "–" for case in cases]
        print(f"{f'{implementation}, {arithmetic}':<66}" + "".join(f"{number:>10}" for number in numbers))
