"""What the suite "multiprocessor" has recorded, as figures: issue slots, loads in flight, waves of blocks.

    issue()          issue slots used, over the warps per scheduler, a line per number of chains
    in_flight()      bytes per second over the bytes that threads ask for at once, beside Little's law
    blocks()         µs over the number of blocks, for 1 and 2 blocks per multiprocessor
    strides()        clocks per request that L1 answers, over the distance between lanes, beside the rule
    l1_clocks([0, 64, 128])    clocks of L1 for one request, by that rule
    load_clocks(report)        clocks of L1 for all loads of a traced launch
    value("divergence", "cycles", arms=8, by="lane")     one number of a record

The figures are shown with alternative text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..cuda.report import Report
from . import plots, results, tables
from .results import Record, Results

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00")
_MARKERS = "osD^v"
_BANKS, _LINE_WORDS, _LINES_PER_CLOCK = 32, 32, 4  # of L1; a word has 4 bytes


def records(experiment: str, recorded: Results | None = None, **keys: Any) -> list[Record]:
    """The records of an experiment with these values. ValueError if there are none."""
    recorded = recorded or results.load(tables.CARD)
    found = results.find(recorded, suite="multiprocessor", experiment=experiment, **keys)
    if not found:
        raise ValueError(f"no record of {experiment} with {keys}: python -m common bench multiprocessor --save")
    return found


def value(experiment: str, key: str, recorded: Results | None = None, **keys: Any) -> Any:
    """One number of the only record with these values. ValueError if there are several."""
    found = records(experiment, recorded, **keys)
    if len(found) > 1:
        raise ValueError(f"{len(found)} records of {experiment} have {keys}: name more values")
    return found[0][key]


def _words(offsets: Iterable[int], size: int) -> set[int]:
    return {word for offset in offsets for word in range(offset // 4, (offset + size - 1) // 4 + 1)}


def _fullest_bank(words: set[int]) -> int:
    """How many of these words lie in the bank that has the most of them."""
    return max(Counter(word % _BANKS for word in words).values())


def _lines(words: set[int]) -> int:
    return len({word // _LINE_WORDS for word in words})


def l1_clocks(offsets: Iterable[int], size: int = 4) -> int:
    """Clocks of L1 for one request: the larger of the most words in one bank and a quarter of the lines, rounded up.

    offsets: bytes from the beginning of a line, per lane. size: bytes per lane; the rule was measured with 4.
    """
    words = _words(offsets, size)
    return max(_fullest_bank(words), -(-_lines(words) // _LINES_PER_CLOCK))


def load_clocks(report: Report) -> float:
    """Clocks of L1 for the loads from global memory of a traced launch, by `l1_clocks` of each line's kept requests."""
    kept = defaultdict(list)
    for request in report.requests:
        if request.space == "global" and request.kind == "load":
            clocks = l1_clocks(request.offsets[request.offsets >= 0].tolist(), request.size)
            kept[request.line, request.array].append(clocks)
    return sum(
        one.counts.requests * float(np.mean(kept[one.line, one.array]))
        for one in report.lines
        if one.counts.space == "global" and one.kind == "load"
    )


def _bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9")


def issue(registers: int = 1, recorded: Results | None = None) -> None:
    """Show the share of issue slots used, over the warps per scheduler. registers: that a multiply-add reads."""
    import matplotlib.pyplot as plt

    found = records("fma", recorded, registers=registers)
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 3.8), layout="constrained")
    chains = sorted({r["chains"] for r in found})
    said = []
    for number, colour, marker in zip(chains, _COLOURS, _MARKERS, strict=True):
        line = sorted((r["warps"], r["issue"]) for r in found if r["chains"] == number)
        label = f"{number} chain{'s' * (number > 1)}"
        axes.plot(*zip(*line, strict=True), marker=marker, color=colour, markersize=6, linewidth=1.2, label=label)
        said.append(f"{label}: {', '.join(f'{share:.2f}' for _, share in line)}")
    axes.set(xlabel="warps per scheduler", ylabel="issue slots used", ylim=(0, 1.08))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    _bare(axes)
    figure.legend(loc="outside right center", frameon=False)
    plt.close(figure)
    plots.show(figure, f"Issue slots used with 1 to 8 warps per scheduler, as a share. {'; '.join(said)}.")


def _is_too_wide(record: Record) -> bool:
    """Whether a thread asks for more than it has registers for: eight loads of 16 bytes."""
    return bool(record["loads"] * record["width"] >= 128)


def in_flight(latency_ns: float, sms: int, recorded: Results | None = None) -> None:
    """Show bytes per second over the bytes that the threads of a multiprocessor ask for at once.

    A line: Little's law at this latency, if all bytes asked for are in flight. Eight loads of 16 bytes have a marker of
    their own: fewer of them are in flight.
    """
    import matplotlib.pyplot as plt

    found = records("loads", recorded)
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 4.2), layout="constrained")
    threads = sorted({r["threads"] for r in found})
    kinds = (("o", "4-byte loads", 4, False), ("D", "16-byte loads", 16, False), ("X", "eight of 16 bytes", 16, True))
    for number, colour in zip(threads, (*_COLOURS, "#555555"), strict=True):
        axes.plot([], [], "s", color=colour, markersize=6, label=f"{number} threads per SM")
        dots = [r for r in found if r["threads"] == number]
        for marker, _, width, too_wide in kinds:
            mine = [r for r in dots if r["width"] == width and _is_too_wide(r) == too_wide]
            axes.plot([r["in_flight"] for r in mine], [r["bytes"] / r["median_us"] / 1e6 for r in mine], marker,
                      color=colour, fillstyle="none", markeredgewidth=1.6, markersize=7)  # fmt: skip
    for marker, label, *_ in kinds:
        axes.plot([], [], marker, color="#888888", fillstyle="none", markeredgewidth=1.6, markersize=7, label=label)
    most = max(r["bytes"] / r["median_us"] / 1e6 for r in found)
    ends = [min(r["in_flight"] for r in found), most * 1e12 * latency_ns * 1e-9 / sms]
    axes.plot(ends, [size * sms / latency_ns * 1e-3 for size in ends], color="black", linewidth=1.2,
              label=f"Little's law,\n{latency_ns:.0f} ns")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="bytes asked for at once, per SM", ylabel="TB/s")
    axes.set_xticks([2**k for k in range(8, 19, 2)], ["256", "1 Ki", "4 Ki", "16 Ki", "64 Ki", "256 Ki"])
    axes.set_yticks([0.1, 0.5, 1, 2, 4], ["0.1", "0.5", "1", "2", "4"])
    axes.minorticks_off()
    _bare(axes)
    figure.legend(loc="outside right center", frameon=False, fontsize=10)
    plt.close(figure)
    rates: dict[int, list[float]] = {}
    for r in found:
        if not _is_too_wide(r):
            rates.setdefault(r["in_flight"], []).append(r["bytes"] / r["median_us"] / 1e6)
    apart = max(max(same) / min(same) for same in rates.values())
    plots.show(
        figure,
        f"Reading: TB per second over the bytes asked for at once per SM, for {threads[0]} to {threads[-1]} threads per"
        f" SM, 1 to 8 loads of 4 or 16 bytes each. The dots rise along the line of Little's law, then bend, up to"
        f" {most:.1f} TB per second. Dots with equal bytes differ by up to {apart:.1f} times; crosses, eight loads of"
        " 16 bytes, lie to the right of the others.",
    )


def blocks(recorded: Results | None = None) -> None:
    """Show µs over the number of blocks, for 1 and for 2 blocks per multiprocessor."""
    import matplotlib.pyplot as plt

    found = records("waves", recorded)
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 3.8), layout="constrained")
    said = []
    for per_sm, colour, marker in ((1, _COLOURS[0], "o"), (2, _COLOURS[4], "D")):
        line = sorted((r["blocks"], r["median_us"]) for r in found if r["per_sm"] == per_sm)
        label = f"{per_sm} block{'s' * (per_sm > 1)} per SM"
        axes.plot(*zip(*line, strict=True), marker=marker, color=colour, markersize=4, linewidth=1, label=label)
        said.append(f"{label}: {line[0][1]:.0f} µs for 1 block, {line[-1][1]:.0f} for {line[-1][0]}")
    axes.set(xlabel="blocks", ylabel="µs", ylim=(0, None), xlim=(0, None))
    axes.set_xticks([1, 132, 264, 396])
    _bare(axes)
    figure.legend(loc="outside right center", frameon=False)
    plt.close(figure)
    plots.show(figure, f"µs over the number of blocks, in steps: {'; '.join(said)}.")


WIDEST = 264  # bytes between lanes, drawn


def strides(recorded: Results | None = None) -> None:
    """Show the clocks per request that L1 answers, over the bytes between neighbouring lanes, and the rule's two parts.

    Lanes further apart than WIDEST are told in the alternative text only.
    """
    import matplotlib.pyplot as plt

    found = sorted((r["stride"], r["cycles"]) for r in records("strides", recorded))
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 4.2), layout="constrained")
    places = range(4, WIDEST + 1, 4)
    words = [_words(range(0, 32 * apart, apart), 4) for apart in places]
    banks = [_fullest_bank(one) for one in words]
    lines = [-(-_lines(one) // _LINES_PER_CLOCK) for one in words]
    axes.plot(places, banks, color=_COLOURS[1], linewidth=1.2, label="most words in one bank")
    label = "a quarter of the lines, rounded up"
    axes.plot(places, lines, color=_COLOURS[3], linewidth=1.6, linestyle="--", drawstyle="steps-mid", label=label)
    near = [(apart, clocks) for apart, clocks in found if apart <= WIDEST]
    axes.plot(*zip(*near, strict=True), "o", color=_COLOURS[0], markersize=7, label="measured")
    axes.set(xlabel="bytes between neighbouring lanes", ylabel="clocks per request", ylim=(0, 34), xlim=(0, WIDEST))
    axes.set_xticks([4, *range(32, WIDEST, 32)])
    axes.set_yticks([1, 4, 8, 16, 32])
    _bare(axes)
    figure.legend(loc="outside upper center", frameon=False, ncols=3)
    plt.close(figure)
    plots.show(
        figure,
        "Clocks per request that L1 answers, over the bytes between neighbouring lanes. One line: the most words in one"
        " bank, with peaks at multiples of 8 bytes, 32 at multiples of 128. The other: a quarter of the lines, rounded"
        " up, at most 8. Dots, measured, lie at the higher line or little above it: "
        + ", ".join(f"{apart:,} bytes {clocks:.3g}" for apart, clocks in found)
        + ".",
    )
