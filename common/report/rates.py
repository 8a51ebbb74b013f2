"""A table of recorded matrix products: TFLOP/s, and shares of the measured roof and of the data sheet's peak.

rates.table("gemm 4096×4096×4096", ("tensor_cores", "warpgroups", "cublas"), "fp16")
rates.SHEET["fp16"]
"""

from collections.abc import Sequence
from typing import Any

from ..measure.roofline import Peaks
from ..text import aligned
from . import ladders, results, tables

# NVIDIA H200 data sheet: FLOP/s of tensor cores without sparsity, half of the numbers with it; fp32: of the FMA units
SHEET = {"fp16": 1979e12 / 2, "tf32": 989e12 / 2, "fp32": 67e12}


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


def _show(plain: str, markdown: str) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(plain)
        return
    display({"text/plain": plain, "text/markdown": markdown}, raw=True)
