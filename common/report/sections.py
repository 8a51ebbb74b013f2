"""The profiler's sections as recorded for rungs of ladders (suite "sections"), laid out like those of ncu.

show("gemm", "naive", "speed of light")     a section of one rung
stalls("gemm", ["naive", "coalesced"])      cycles per issued instruction by stall reason, a bar per rung
of("gemm", "naive")                         the record
main_stall(record)                          the reason that most cycles are lost for
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import plots, results, tables
from .ladders import _plain, _show
from .results import Record, Results


def of(operator: str, rung: str, recorded: Results | None = None) -> Record:
    """The record of a rung. LookupError as of results.one."""
    return results.one(recorded or results.load(tables.CARD), suite="sections", operator=operator, implementation=rung)


def _percent(key: str) -> Callable[[Record], str]:
    return lambda r: f"{r[key]:.1%}"


def _number(key: str, digits: int = 2) -> Callable[[Record], str]:
    return lambda r: f"{r[key]:,.{digits}f}"


# section: rows of (ncu's name, unit, number)
SECTIONS: Mapping[str, Sequence[tuple[str, str, Callable[[Record], str]]]] = {
    "speed of light": (
        ("Duration", "µs", _number("us", 1)),
        ("Compute (SM) Throughput", "of the peak", _percent("compute_throughput")),
        ("Memory Throughput", "of the peak", _percent("memory_throughput")),
        ("L1/TEX Cache Throughput", "of the peak", _percent("l1")),
        ("L2 Cache Throughput", "of the peak", _percent("l2")),
        ("DRAM Throughput", "of the peak", _percent("dram")),
    ),
    "scheduler": (
        ("Active Warps Per Scheduler", "warps", _number("active")),
        ("Eligible Warps Per Scheduler", "warps", _number("eligible")),
        ("Issued Warp Per Scheduler", "per cycle", _number("issue")),
        ("Warp Cycles Per Issued Instruction", "cycles", _number("cycles_per_instruction")),
    ),
    "occupancy": (
        ("Registers Per Thread", "", _number("registers", 0)),
        ("Theoretical Occupancy", "of 64 warps", _percent("theoretical")),
        ("Achieved Occupancy", "of 64 warps", _percent("achieved")),
    ),
    "memory": (
        ("Requests of Global Loads", "", _number("requests", 0)),
        ("Sectors of Global Loads", "", _number("sectors", 0)),
        ("Shared Load Wavefronts", "", _number("shared_loads", 0)),
        ("Shared Load Bank Conflicts", "", _number("conflicts", 0)),
        ("Sectors of Local Loads", "", _number("local_loads", 0)),
    ),
}
HEADS = {
    "speed of light": "GPU Speed Of Light Throughput",
    "scheduler": "Scheduler Statistics",
    "occupancy": "Occupancy",
    "memory": "Memory Workload Analysis",
}
# the stall reasons that the course's kernels have, those of little weight together; colours of plots
REASONS = {
    "selected": "#009e73", "not_selected": "#7fc8ad", "long_scoreboard": "#0072b2", "lg_throttle": "#56b4e9",
    "short_scoreboard": "#e69f00", "mio_throttle": "#d55e00", "barrier": "#cc79a7", "math_pipe_throttle": "#555555",
    "wait": "#999999",
}  # fmt: skip


def show(operator: str, rungs: str | Sequence[str], section: str, recorded: Results | None = None) -> None:
    """Show a section, with ncu's names, a column per rung. ValueError for an unknown section."""
    if section not in SECTIONS:
        raise ValueError(f"section must be one of {', '.join(SECTIONS)}, got {section!r}")
    names = [rungs] if isinstance(rungs, str) else list(rungs)
    found = [of(operator, name, recorded) for name in names]
    heads = [HEADS[section], "", *names]
    rows = [[name, unit, *(number(r) for r in found)] for name, unit, number in SECTIONS[section]]
    _show(_plain(heads, rows, texts=2), tables.markdown(heads, rows, 2))


def main_stall(record: Record) -> str:
    """The reason for which a warp waits longest; not "selected", which is the cycle in which it issues."""
    return str(max((name for name in record["waits"] if name != "selected"), key=lambda name: record["waits"][name]))


def stalls(operator: str, rungs: Sequence[str], recorded: Results | None = None) -> None:
    """Show cycles per issued instruction by stall reason, a bar per rung."""
    import matplotlib.pyplot as plt

    found = {name: of(operator, name, recorded)["waits"] for name in rungs}
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 1.6 + 0.45 * len(rungs)), layout="constrained")
    left = dict.fromkeys(rungs, 0.0)
    for reason, colour in {**REASONS, "others": "#dddddd"}.items():
        lengths = [_cycles(found[name], reason) for name in rungs]
        axes.barh(list(rungs), lengths, left=list(left.values()), color=colour, label=reason, height=0.7)
        left = {name: left[name] + length for name, length in zip(rungs, lengths, strict=True)}
    axes.invert_yaxis()
    axes.set(xlabel="cycles per issued instruction, of one warp")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=10)
    plt.close(figure)
    said = "; ".join(
        f"{name}: {left[name]:.1f} cycles, most for {main_stall({'waits': found[name]})}" for name in rungs
    )
    plots.show(figure, f"Cycles of a warp per issued instruction, by stall reason. {said}.")


def _cycles(waits: Mapping[str, Any], reason: str) -> float:
    if reason == "others":
        return sum(cycles for name, cycles in waits.items() if name not in REASONS)
    return float(waits.get(reason, 0.0))
