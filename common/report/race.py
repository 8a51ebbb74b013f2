"""The engine's steps beside cuDNN's, from the records: per kind of layer, the sum of the steps, the whole network.

    race.draw(recorded)                    a dot per kind of layer and batch: cuDNN's time over ours
    race.ahead(recorded, "fp16", 256)      in how many of the network's layers ours is the faster
    race.processes(recorded)               whether both times of a step are of one process, in words
    race.sums(recorded)                    rows: the steps' times summed, beside the network's
    race.terms(recorded)                   what multiplies there, errors, and of which processes the times are

A step was timed alone (suite "operators"). Of cuDNN's two layouts the faster counts, step by step.
"""

import math
from typing import Any, NamedTuple

from . import plots, results, tables
from .results import Record, Results

SIDES = ("ours", "cudnn")
BATCHES, PRECISIONS = (1, 32, 256), ("fp32", "fp16")
STEP_BY_STEP = f"{tables.NETWORK}, step by step"  # the case of ours with a kernel per step
STYLES = {1: ("o", "#56b4e9"), 32: ("s", "#0072b2"), 256: ("D", "#d55e00")}  # marker and colour by batch


def steps(recorded: Results, side: str, precision: str, batch: int, **keys: Any) -> dict[str, Record]:
    """{case: record} of every step on one of SIDES, in the faster layout. keys: of the records, such as layout.

    Each record has `count`, the number of the network's layers that are such a step. ValueError for another side.
    """
    if side not in SIDES:
        raise ValueError(f"side must be one of {', '.join(SIDES)}, got {side!r}")
    found = results.find(recorded, suite="operators", implementation=side, precision=precision, batch=batch, **keys)
    best: dict[str, Record] = {}
    for one in found:
        if one["case"] not in best or one["median_us"] < best[one["case"]]["median_us"]:
            best[one["case"]] = one
    return best


def ratios(recorded: Results, precision: str, batch: int) -> list[tuple[str, int, float]]:
    """(kind of layer, number of layers, cuDNN's time over ours) of each step; above 1 ours is faster."""
    ours, other = (steps(recorded, side, precision, batch) for side in SIDES)
    return [(r["kind"], r["count"], other[case]["median_us"] / r["median_us"]) for case, r in ours.items()]


def ahead(recorded: Results, precision: str, batch: int) -> int:
    """The number of the network's layers in which ours is faster than cuDNN."""
    return sum(count for _, count, ratio in ratios(recorded, precision, batch) if ratio > 1)


def speed_up(recorded: Results, precision: str, batch: int, kind: str | None = None) -> float:
    """The geometric mean of cuDNN's time over ours, of all layers or of a kind; every layer weighs the same."""
    chosen = [(count, ratio) for one, count, ratio in ratios(recorded, precision, batch) if kind in (None, one)]
    if not chosen:
        raise ValueError(f"kind must be one of {', '.join(kinds(recorded))}, got {kind!r}")
    return math.exp(sum(n * math.log(ratio) for n, ratio in chosen) / sum(n for n, _ in chosen))


def processes(recorded: Results) -> str:
    """One or two sentences: for how many steps both times were taken in turn in one process, or were not."""
    pairs = [
        ours.get("run") == other.get("run") and "cudnn" in ours.get("ratios", {})
        for precision in PRECISIONS
        for batch in BATCHES
        for case, other in steps(recorded, "cudnn", precision, batch).items()
        if (ours := steps(recorded, "ours", precision, batch).get(case)) is not None
    ]
    if pairs and all(pairs):
        return "Both times of each step were taken in turn, in one process."
    which = (
        "The two times of each step" if not any(pairs) else f"In {pairs.count(False)} of {len(pairs)} steps the times"
    )
    return f"{which} are of different processes, and perhaps of different days.\nThese ratios have no interval."


def kinds(recorded: Results) -> list[str]:
    """The kinds of layers, in the order in which the network begins with them."""
    return list(dict.fromkeys(kind for kind, _, _ in ratios(recorded, PRECISIONS[0], BATCHES[0])))


def draw(recorded: Results) -> None:
    """Show cuDNN's time over ours: one dot per kind of layer and batch, one panel per precision."""
    import matplotlib.pyplot as plt

    names = kinds(recorded)
    figure, panels = plt.subplots(1, 2, figsize=(plots.WIDTH, 3.6), sharey=True, layout="constrained")
    told = []
    for panel, precision in zip(panels, PRECISIONS, strict=True):
        for shift, (batch, (marker, colour)) in zip((-0.2, 0, 0.2), STYLES.items(), strict=True):
            found = [speed_up(recorded, precision, batch, kind) for kind in names]
            places = [place + shift for place in range(len(names))]
            panel.plot(found, places, marker, color=colour, label=f"batch {batch}", markersize=6)
            told.append(
                f"{precision}, batch {batch}: " + ", ".join(f"{k} {r:.2f}" for k, r in zip(names, found, strict=True))
            )
        panel.axvline(1, color=plots.INK, linewidth=1)
        panel.set_xscale("log")
        ticks = [0.5, 0.7, 1, 1.5, 2, 3, 4]
        panel.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
        panel.minorticks_off()
        panel.set_title(precision)
        panel.grid(axis="x", color="0.9")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.supxlabel("cuDNN's time over the engine's: right of the line, the engine is faster", fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    plots.show(figure, "cuDNN's time over ours per kind of layer, dots on a logarithmic axis. " + "; ".join(told) + ".")


class Sum(NamedTuple):
    """µs per batch of all steps, each timed alone and summed, and of the whole network, by side.

    other: the sides whose steps were timed with another arithmetic than the network: the two are of two programs.
    """

    precision: str
    batch: int
    summed: dict[str, float]
    whole: dict[str, float]
    other: frozenset[str]

    @property
    def ratios(self) -> dict[str, float]:
        """The whole over the sum, by side, where both are of one program."""
        return {side: self.whole[side] / self.summed[side] for side in SIDES if side not in self.other}


def sums(recorded: Results) -> list[Sum]:
    """The sum of the steps beside the whole network, both in the layout in which the whole is the fastest."""
    rows = []
    for precision in PRECISIONS:
        for batch in BATCHES:
            summed, whole, other = {}, {}, set()
            for side in SIDES:
                case = STEP_BY_STEP if side == "ours" else tables.NETWORK
                keys = {"suite": "network", "case": case, "implementation": side, "launch": "graph", "mode": "hot"}
                fastest = min(
                    results.find(recorded, precision=precision, batch=batch, **keys), key=lambda r: r["median_us"]
                )
                alone = steps(recorded, side, precision, batch, layout=fastest["layout"])
                summed[side] = sum(r["count"] * r["median_us"] for r in alone.values())
                whole[side] = fastest["median_us"]
                if fastest["arithmetic"] not in {r["arithmetic"] for r in alone.values()}:
                    other.add(side)
            rows.append(Sum(precision, batch, summed, whole, frozenset(other)))
    return rows


def whole_over_sum(recorded: Results) -> str:
    """By how much the whole network takes longer than the sum of its steps, at most, at batches 1 and 32: "11 %"."""
    more = [ratio - 1 for row in sums(recorded) if row.batch < 256 for ratio in row.ratios.values()]
    return f"{100 * max(more):.0f} %"


def whole_beside_sum(recorded: Results) -> str:
    """By how much the whole engine and the sum of its steps differ, at most, over all batches, as a percentage."""
    return f"{100 * max(abs(row.ratios['ours'] - 1) for row in sums(recorded) if 'ours' in row.ratios):.0f} %"


def peers(recorded: Results) -> list[tuple[str, list[float | None]]]:
    """(implementation, its time over ours per precision and batch) of the whole network; None: not measured.

    Ours is the one with a kernel per step, as `sums` has it.
    """
    own = [row.whole["ours"] for row in sums(recorded)]
    found = [tables.network_times(recorded, precision, batch) for precision in PRECISIONS for batch in BATCHES]
    rows: list[tuple[str, list[float | None]]] = []
    for name, words in tables.IMPLEMENTATIONS.items():
        times = own if name == "ours" else [one.get(name) for one in found]
        rows.append((words, [None if us is None else us / mine for us, mine in zip(times, own, strict=True)]))
    return rows


def terms(recorded: Results) -> str:
    """Lines on `peers`: what multiplies in fp32, the largest errors, and whether all are of one process per column."""
    keys: dict[str, Any] = {"suite": "network", "case": STEP_BY_STEP, "implementation": "ours", "launch": "graph"}
    words, apart = [], False
    for precision in PRECISIONS:
        own = results.find(recorded, precision=precision, mode="hot", **keys)
        others = []
        for batch in BATCHES:
            every = {"suite": "network", "case": tables.NETWORK, "mode": "hot", "precision": precision, "batch": batch}
            column = tables.rivals(results.find(recorded, **every))
            others += [one.record for name, one in column.items() if name in tables.IMPLEMENTATIONS and name != "ours"]
        apart |= not {tables.process_of(r) for r in others} <= {tables.process_of(r) for r in own}
        errors = max(map(tables.error_of, [*own, *others]), default=0.0)
        words.append(
            f"{precision}: the engine multiplies in {tables.arithmetic(own)}, the others in"
            f" {tables.arithmetic(others)}; errors up to {errors:.0e}"
        )
    of = "Columns are of several processes, so these are ratios of medians; " if apart else ""
    return "\n".join([*words, f"{of}–: not measured"])
