"""The gemm ladder on one multiprocessor: what a step of a warp costs on each of its units, counted and measured.

    traced("register_block")                      the trace of a small product, as written
    traced("register_block", compiled=True)       with shared accesses as wide as the machine code has them
    units("register_block")                       Units(l1=0.04, wavefronts=0.33, slots=0.31), clocks per step
    clocks("register_block")                      measured clocks per step, None without a record
    show(RUNGS)                                   all of them as dots

A step is one multiply-add of all 32 lanes of a warp. A multiprocessor's clock is that at which it reaches the measured
peak of fp32: with 128 multiply-adds per clock, a step of arithmetic is a quarter of a clock.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from .. import cuda, kernels
from ..kernels.gemm import geometry, ladder
from . import ladders, multiprocessor, plots, results, tables

CASE, SIZE = "gemm 4096×4096×4096", 4096
M, N, K = 128, 128, 32  # the product that is traced: one tile of the largest rungs, a few slices
STEPS = M * N * K // 32  # of warps in it
ARITHMETIC = 0.25  # clocks of a multiprocessor per step, for the multiply-adds alone
MULTIPLY_ADDS = 128  # of a multiprocessor per clock
COLOURS = {"L1 cache": "#cc79a7", "shared wavefronts": "#e69f00", "issue slots": "#009e73", "measured": "#0072b2"}


@dataclass(frozen=True)
class Units:
    """Clocks per step of each unit: L1 for loads from global memory, wavefronts of shared memory, issue slots.

    l1: by the rule of multiprocessor.l1_clocks. L1 and shared memory are one unit; no rung has much of both.
    """

    l1: float
    wavefronts: float
    slots: float

    @property
    def clocks(self) -> float:
        """The slowest unit's, if nothing ever waits."""
        return max(self.l1, self.wavefronts, self.slots, ARITHMETIC)

    @property
    def slowest(self) -> str:
        """The name of the slowest unit."""
        return max(zip((self.l1, self.wavefronts, self.slots), COLOURS, strict=False))[1]


@cache
def traced(rung: str, compiled: bool = False, transposed: bool = False) -> Any:
    """The trace of C (128, 128) = A (128, 32) · B (32, 128), whose result is checked.

    compiled: count shared accesses as wide as in the machine code for sm_90. transposed: B is given as (128, 32).
    """
    random = np.random.default_rng(4)
    tile = ladder.tile(rung)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((M, K), (N, K) if transposed else (K, N)))
    out, infinity = np.full((M, N), np.nan, np.float32), np.float32(np.inf)
    merge = kernels.inspect("gemm", rung, transpose_b=transposed) if compiled else None
    with patch.dict(os.environ, COURSE_DEVICE="simulator"):  # the GPU here may be too old for a rung
        kernel = ladder.kernel(rung, np.dtype(np.float32), TRANSPOSE_B=int(transposed), **tile)
        arguments = (a, b, None, out, M, N, K, -infinity, infinity)
        report = cuda.trace(kernel, *geometry(tile, M, N), arguments, merge=merge)
    if report.findings or not np.allclose(out, a @ (b.T if transposed else b), atol=1e-4):
        raise AssertionError(f"gemm/{rung} is wrong: {report.findings}")
    return report


def lines(report: Any) -> float:
    """128-byte lines of the L1 cache that loads from global memory touch, per step."""
    loads = [r for r in report.requests if r.space == "global" and r.kind == "load"]
    if not loads:
        return 0.0
    touched = sum(len(set(r.offsets[r.offsets >= 0] // 128)) for r in loads)
    return touched / len(loads) * report.global_loads.requests / STEPS


def l1_clocks(report: Any) -> float:
    """Clocks that L1 takes for loads from global memory, per step."""
    return multiprocessor.load_clocks(report) / STEPS


def wavefronts(report: Any) -> float:
    """Wavefronts of shared memory, of loads and stores, per step."""
    return (report.shared_loads.wavefronts + report.shared_stores.wavefronts) / STEPS


def units(rung: str) -> Units:
    """Clocks per step of each unit, from the trace as compiled and from the machine code's hot loop."""
    report, found = traced(rung, compiled=True), kernels.inspect("gemm", rung)
    issued = sum(found.hot.values()) / found.hot["FFMA"]  # four schedulers, one instruction per clock each
    return Units(l1_clocks(report), wavefronts(report), issued / 4)


def clock_hz() -> float:
    """The clock at which the multiprocessors reach the measured fp32 peak."""
    recorded = results.load(tables.CARD)
    peaks = tables.roofs_of(recorded)
    if peaks is None:
        raise ValueError("the results hold no peaks")
    return peaks.flops_per_s("fp32") / 2 / MULTIPLY_ADDS / MULTIPROCESSORS


MULTIPROCESSORS = 132  # of an H200


def clocks(rung: str, case: str = CASE) -> float | None:
    """Clocks of a multiprocessor per step, as measured: all 132 share the steps. None without a record."""
    us = ladders.us(case, rung)
    return us and us * 1e-6 * clock_hz() / (SIZE**3 / 32 / MULTIPROCESSORS)


def show(rungs: Sequence[str], title: str = "") -> None:
    """Show the clocks per step of each unit and as measured as dots, a row per rung, on a logarithmic axis."""
    import matplotlib.pyplot as plt

    counted = {rung: units(rung) for rung in rungs}
    measured = {rung: us for rung in rungs if (us := clocks(rung))}
    figure, axes = plt.subplots(figsize=(plots.WIDTH, 1.5 + 0.42 * len(rungs)), layout="constrained")
    series = {
        "L1 cache": {rung: u.l1 for rung, u in counted.items()},
        "shared wavefronts": {rung: u.wavefronts for rung, u in counted.items()},
        "issue slots": {rung: u.slots for rung, u in counted.items()},
        "measured": measured,
    }
    for (name, values), marker in zip(series.items(), "^sDo", strict=True):
        places = [(value, list(rungs).index(rung)) for rung, value in values.items() if value > 0.01]
        size = 9 if name == "measured" else 7
        if places:
            axes.plot(*zip(*places, strict=True), marker, color=COLOURS[name], markersize=size, label=name)
    axes.axvline(ARITHMETIC, color="black", linewidth=1.2, linestyle="--", label="multiply-adds alone")
    for i in range(len(rungs)):
        axes.axhline(i, color="0.85", linewidth=0.8, zorder=0)
    axes.set(xscale="log", ylim=(len(rungs) - 0.5, -0.5), xlabel="clocks of a multiprocessor per step, logarithmic")
    axes.set_xticks([0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 5, 10, 33], ["0.01", "0.03", "0.1", "¼", "½", 1, 2, 5, 10, 33])
    axes.minorticks_off()
    axes.set_yticks(range(len(rungs)), rungs)
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=10, ncols=5, loc="outside lower center")
    said = "; ".join(
        f"{rung}: {u.slowest} {u.clocks:.1f}" + (f", measured {measured[rung]:.2f}" if rung in measured else "")
        for rung, u in counted.items()
    )
    what = "Dots: clocks per step on a logarithmic axis, a row per rung. The slowest unit and its clocks"
    plots.show(figure, f"{what}: {said}.")
