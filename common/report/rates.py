"""Recorded matrix products: TFLOP/s, shares of the measured roof and of the data sheet's peak, and what is lost where.

rates.table("gemm 4096×4096×4096", ("tensor_cores", "warpgroups", "cublas"), "fp16")
rates.losses(("tensor_cores", "warpgroups"))     the profiler's clock and active cycles, and the work of an active cycle
rates.roof_run()                                 the run in which the roof of the tensor cores was measured
rates.SHEET["fp16"]
"""

from collections.abc import Sequence
from typing import Any

from ..measure.roofline import Peaks
from ..text import aligned
from . import ladders, results, sections, tables

# NVIDIA H200 data sheet: FLOP/s of tensor cores without sparsity, half of the numbers with it; fp32: of the FMA units
SHEET = {"fp16": 1979e12 / 2, "tf32": 989e12 / 2, "fp32": 67e12}

PER_CLOCK = 2048  # multiply-adds in fp16 of a multiprocessor's tensor cores, at the data sheet's peak


class Rates(list[dict[str, Any]]):
    """The rows of the table. `table` has shown it, so it displays nothing."""

    def _ipython_display_(self) -> None:
        pass


def table(case: str, names: Sequence[str], precision: str = "fp16") -> Rates:
    """Show the recorded times of rungs and libraries; return the rows: name, us, flops_per_s, of_roof, of_sheet.

    The roof is the rate that was measured with the largest product of cuBLAS. Names without a record are left out.
    """
    recorded = results.load(tables.CARD)
    roof = Peaks.recorded(recorded).flops_per_s(precision)
    rows = Rates()
    for name in names:
        us = ladders.us(case, name, precision=precision)
        found = results.find(recorded, suite="kernels", case=case, precision=precision, implementation=name)
        if us is not None:
            rate = found[0]["flops"] / us * 1e6
            said = tables.LIBRARIES.get(name, name)
            rows.append({"name": said, "us": us, "flops_per_s": rate, "of_roof": rate / roof,
                         "of_sheet": rate / SHEET[precision]})  # fmt: skip
    heads = ["", "µs", "TFLOP/s", "of the measured roof", "of the data sheet's peak"]
    cells = [
        [r["name"], tables.us(r["us"]), f"{r['flops_per_s'] / 1e12:.0f}", f"{r['of_roof']:.0%}", f"{r['of_sheet']:.0%}"]
        for r in rows
    ]
    title = (
        f"{case}, {precision}, {tables.CARD}. The measured roof: {roof / 1e12:.0f} TFLOP/s; the data sheet's peak:"
        f" {SHEET[precision] / 1e12:.1f} TFLOP/s"
    )
    _show(f"{title}\n\n" + "\n".join(aligned([heads, *cells], right=range(1, len(heads)))),
          f"**{title}**\n\n{tables.markdown(heads, cells, 1)}")  # fmt: skip
    return rows


class Losses(dict[str, dict[str, float]]):
    """The shares by rung. `losses` has shown them, so it displays nothing."""

    def _ipython_display_(self) -> None:
        pass


def losses(rungs: Sequence[str], products: int = 4096**3) -> Losses:
    """Show the shares of the data sheet's peak of profiled rungs of gemm, as a product of three shares; return these.

    clock: of the one that the data sheet counts with; active: cycles in which the tensor cores are active; work: the
    multiply-adds of such a cycle, over those of the peak. A rung in fp32 multiplies three times, in TF32.
    """
    found, cells = Losses(), []
    for name in rungs:
        r = sections.of("gemm", name)
        made, kind = (products, "fp16") if r["precision"] == "fp16" else (3 * products, "tf32")
        sms = results.load(tables.CARD).runs[r["run"]]["sms"]
        clock = SHEET["fp16"] / (2 * PER_CLOCK * sms)
        whole = 2e6 * made / r["us"] / SHEET[kind]
        share = {"clock": r["clock_hz"] / clock, "active": r["tensor"], "whole": whole}
        share["work"] = whole / share["clock"] / share["active"]
        found[name] = share
        mhz = f"{r['clock_hz'] / 1e6:,.0f} of {clock / 1e6:,.0f} MHz"
        cells.append([name, kind, mhz, f"{share['active']:.0%}", f"{share['work']:.0%}", f"{whole:.0%}"])
    heads = [
        "",
        "mma of",
        "clock",
        "× cycles with active tensor cores",
        "× work of such a cycle",
        "= of the data sheet",
    ]
    _show("\n".join(aligned([heads, *cells], right=range(2, len(heads)))), tables.markdown(heads, cells, 2))
    return found


def roof_run() -> None:
    """Print with which product the roof in fp16 was measured, and what the card reported."""
    recorded = results.load(tables.CARD)
    peak = results.one(recorded, suite="peaks", case="tensor-fp16")
    run = recorded.runs[peak["run"]]
    print(f"the roof was measured with a product of size {peak['size']}³; clock at the end: {run['sm_mhz']:,} MHz;")
    print(f"the card reported: {', '.join(run['watch']['throttle'])}")


def _show(plain: str, markdown: str) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(plain)
        return
    display({"text/plain": plain, "text/markdown": markdown}, raw=True)
