"""Errors of a network's steps (network.compare.compare_steps) as text and as figures.

drift.around(rows)                    the steps around the first that is wrong itself
drift.changed_order(exact, rounded)   the pictures whose best classes change places, and why
drift.growth({"fp32": rows})          own error and error so far, step by step, of right networks
drift.culprits(rows)                  the same of a network with wrong steps
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import plots

SO_FAR, OWN, ALLOWED = "#d55e00", "#0072b2", "#999999"
FLOOR = 1e-8  # an own error of 0 is drawn here


def around(rows: Sequence[Any], before: int = 2, after: int = 2) -> None:
    """Print the steps around the first whose own error does not fit: numbers where an error is large, else `fine`.

    rows: of compare_steps. before, after: how many steps to print on either side.
    """
    first = next((i for i, row in enumerate(rows) if not row.fits), None)
    if first is None:
        print("every step fits")
        return
    print(f"{'step':>4}  {'':<48}{'so far':>8}{'own':>8}")
    for row in rows[max(0, first - before) : first + after + 1]:
        so_far = "fine" if row.error <= 1e-4 else f"{row.error:.2g}"
        own = "fine" if row.fits else f"{row.own:.2g}"
        print(f"{row.index:>4}  {row.step[:47]:<48}{so_far:>8}{own:>8}")


def changed_order(exact: Any, rounded: Any, best: int = 5) -> None:
    """Print the pictures whose best classes are in another order: the two classes, their distance and their errors.

    exact, rounded: logits (pictures, classes), such as in fp32 and in fp16. best: how many classes are compared.
    ValueError for different shapes.
    """
    exact, rounded = np.asarray(exact, np.float64), np.asarray(rounded, np.float64)
    if exact.shape != rounded.shape:
        raise ValueError(f"exact has shape {exact.shape}, rounded {rounded.shape}")
    orders = [np.argsort(-scores, axis=1, kind="stable")[:, :best] for scores in (exact, rounded)]
    changed = np.flatnonzero((orders[0] != orders[1]).any(axis=1))
    for picture in changed:
        place = int(np.flatnonzero(orders[0][picture] != orders[1][picture])[0])
        pair = [int(order[picture, place]) for order in orders]
        errors = rounded[picture] - exact[picture]
        distance = exact[picture, pair[0]] - exact[picture, pair[1]]
        print(f"picture {picture}: at place {place + 1}, class {pair[0]} gives way to class {pair[1]}")
        print(
            f"    their logits are {distance:.3f} apart, and off by {' and '.join(f'{errors[i]:+.3f}' for i in pair)}"
        )
        print(f"    the largest error of the {len(errors):,} logits is {abs(errors).max():.3f}")
    if not changed.size:
        print(f"no picture changes the order of its best {best}")


def growth(panels: Mapping[str, Sequence[Any]]) -> None:
    """Show a panel per network, {title: rows of compare_steps}: own errors, the error so far, and what is allowed.

    ValueError for no panel.
    """
    if not panels:
        raise ValueError("panels must have at least one network, got none")
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        steps = [row.index for row in rows]
        axis.plot(
            steps, [row.allowed for row in rows], color=ALLOWED, drawstyle="steps-mid", label="own error, allowed"
        )
        axis.plot(steps, [row.error for row in rows], color=SO_FAR, label="error so far")
        axis.plot(steps, [row.own for row in rows], "o", markersize=3, color=OWN, label="own error")
        axis.set(title=title, ylim=(FLOOR, 3e-2))
        _styled(axis)
    axes[0].set_ylabel("relative error")
    axes[0].legend(frameon=False, fontsize=10, loc="upper left")
    said = "; ".join(
        f"{title}: own errors up to {max(row.own for row in rows):.0e}, at the end so far {rows[-1].error:.0e}"
        for title, rows in panels.items()
    )
    plots.show(
        figure,
        "Relative error per step, logarithmic, one panel per precision. Own errors, dots, stay on one level, below a"
        f" grey line of what is allowed. The error so far, a line, lies above the dots. {said}.",
    )


def culprits(rows: Sequence[Any]) -> None:
    """Show the error so far of each step of a network, and its own error, marked where it does not fit.

    rows: of compare_steps; NaN is not drawn.
    """
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    axis = figure.subplots()
    fits, others = [row for row in rows if row.fits], [row for row in rows if not row.fits]
    axis.plot([row.index for row in rows], [row.error for row in rows], color=SO_FAR, label="error so far")
    axis.plot(
        [row.index for row in fits], [max(row.own, FLOOR) for row in fits], "o", markersize=3.5, color=OWN,
        label="own error, fits",
    )  # fmt: skip
    axis.plot(
        [row.index for row in others], [row.own for row in others], "X", markersize=7, color="#000000",
        label="own error, does not fit",
    )  # fmt: skip
    axis.set(ylabel="relative error", ylim=(FLOOR / 2, 60))
    _styled(axis)
    axis.legend(frameon=False, fontsize=10, ncols=3, loc="upper center")
    listed = ", ".join(str(row.index) for row in others) or "none"
    plots.show(
        figure,
        "Relative error per step, logarithmic. The error so far, a line, is large from the first wrong step to the"
        f" end. The own error, dots, is tiny except for the steps marked by crosses: {listed}.",
    )


def _styled(axis: Any) -> None:
    axis.set(xlabel="step", yscale="log")
    axis.grid(axis="y", color="0.92", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)
