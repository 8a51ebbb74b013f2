"""What rungs of conv2d do with their issue slots: the profiler's records beside the blocks and the places for them.

slots.table("conv 3×3 56×56 64>64", ["direct", "implicit_gemm"], batch=32)   a column per rung; returns the numbers

The peak of fp32 multiply-adds is one in each issue slot, so its share is a product of three: of the slots of cycles in
which an SM has warps, how many are used; of all cycles, in how many it has warps; of the instructions, how many are
multiply-adds. The profiler ran NCHW in fp32.
"""

from collections.abc import Sequence

from ..cuda.machine_code.occupancy import SCHEDULERS
from ..kernels.inspected import launches_on
from ..text import aligned
from . import machine, results, sections, tables
from .ladders import _show
from .results import Record


class Slots(dict[str, dict[str, float]]):
    """The numbers by rung. `table` has shown them, so it displays nothing."""

    def _ipython_display_(self) -> None:
        pass


def table(case: str, rungs: Sequence[str], batch: int) -> Slots:
    """Show what the profiler counted for rungs of conv2d, a column each; return the numbers.

    LookupError without records of the rung, of this case and batch.
    """
    recorded = results.load(tables.CARD)
    keys = {"suite": "kernels", "case": case, "batch": batch, "precision": "fp32", "layout": "NCHW"}
    found = Slots({name: _numbers(results.one(recorded, implementation=f"conv2d/{name}", **keys)) for name in rungs})
    heads = ["as profiled, NCHW", *rungs]
    rows = [[words, *(form.format(one[key]) for one in found.values())] for words, form, key in ROWS]
    _show("\n".join(aligned([heads, *rows], right=range(1, len(heads)))), tables.markdown(heads, rows, 1))
    return found


ROWS = (
    ("µs", "{:.0f}", "us"),
    ("share of instructions that are multiply-adds", "{:.0%}", "useful"),
    ("× share of issue slots used while an SM has warps", "{:.0%}", "issue"),
    ("× share of the time in which an SM has warps", "{:.0%}", "busy"),
    ("= share of the peak of multiply-adds", "{:.0%}", "peak"),
    ("cycles between two instructions of a warp", "{:.1f}", "cycles"),
    ("of these, waiting for global memory", "{:.2f}", "global_wait"),
    ("requests of global loads per multiply-add of a warp", "{:.3f}", "requests"),
    ("wavefronts of shared loads per multiply-add of a warp", "{:.3f}", "wavefronts"),
    ("blocks", "{:.0f}", "blocks"),
    ("places for blocks on all SMs", "{:.0f}", "places"),
    ("waves", "{:.2f}", "waves"),
)


def _numbers(record: Record) -> dict[str, float]:
    """The numbers of a rung, from its record in the suite "kernels" and that in "sections"."""
    rung = record["implementation"].rpartition("/")[2]
    recorded = results.load(tables.CARD)
    r = sections.of("conv2d", rung, recorded)
    if r["case"].partition(" ")[2] != record["shape"] or r["batch"] != record["batch"]:
        raise LookupError(f"{rung}: {r['case']} at batch {r['batch']} was profiled, not {record['case']}")
    sms = recorded.runs[r["run"]]["sms"]
    call = machine.call_of(*(record[key] for key in ("operator", "kind", "shape", "batch", "precision", "layout")))
    blocks = next(
        one.launch.grid[0] for one in launches_on("H200", lambda: call(rung)) if one.launch.name == f"conv2d/{rung}"
    )
    places = machine.inspection(record).occupancy("H200").blocks * sms
    products = record["flops"] / 2 / 32  # multiply-adds of whole warps
    slots = SCHEDULERS * sms * r["clock_hz"] * r["us"] / 1e6  # of all cycles
    return {
        "us": r["us"], "useful": products / r["instructions"], "issue": r["issue"],
        "busy": r["instructions"] / slots / r["issue"], "peak": products / slots,
        "cycles": r["cycles_per_instruction"], "global_wait": r["waits"]["long_scoreboard"],
        "requests": r["requests"] / products, "wavefronts": r["shared_loads"] / products,
        "blocks": blocks, "places": places, "waves": blocks / places,
    }  # fmt: skip
