"""The suite "sections": what the profiler says of each rung of a ladder, by the sections of Nsight Compute (ncu).

This program runs again under ncu, which replays each kernel alone, with flushed caches, once for each group of
counters. Names of the numbers in a record, and the sections that show them:

    us, compute_throughput, memory_throughput, l1, l2, dram
                                            GPU Speed Of Light Throughput; shares of the peak, but for us
    ipc, issue                              Compute Workload Analysis: instructions per cycle of a multiprocessor, and
                                            issue slots used, as a share
    active, eligible                        Scheduler Statistics: warps per scheduler and cycle
    waits, cycles_per_instruction           Warp State Statistics: cycles per issued instruction, by stall reason
    registers, theoretical, achieved        Launch Statistics and Occupancy; shares of the most warps
    shared_loads, shared_stores, conflicts  Memory Workload Analysis: wavefronts in shared memory
    requests, sectors                       of loads from global memory
    local_loads, local_stores               sectors of register spills
    l2_bytes, dram_bytes, instructions      moved; executed by all warps
    tensor, clock_hz                        cycles in which the tensor cores are active, as a share; the SMs' clock
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from .. import cuda, kernels
from ..cuda.graphs import NoGpu
from ..kernels.ladder import Launch, recorded
from . import driver, trace
from .driver import Measured, Options
from .profile import ncu, rows_of

METRICS = {
    "us": "gpu__time_duration.sum",
    "compute_throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "ipc": "sm__inst_executed.avg.per_cycle_active",
    "issue": "smsp__issue_active.avg.per_cycle_active",
    "active": "smsp__warps_active.avg.per_cycle_active",
    "eligible": "smsp__warps_eligible.avg.per_cycle_active",
    "cycles_per_instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "registers": "launch__registers_per_thread",
    "theoretical": "sm__maximum_warps_per_active_cycle_pct",
    "achieved": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "shared_loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "local_loads": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_stores": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_bytes": "dram__bytes.sum",
    "instructions": "smsp__inst_executed.sum",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "clock_hz": "sm__cycles_elapsed.avg.per_second",
}
SHARES = (
    "compute_throughput",
    "memory_throughput",
    "l1",
    "l2",
    "dram",
    "theoretical",
    "achieved",
    "tensor",
)  # ncu gives percent
COUNTS = (
    "registers", "shared_loads", "shared_stores", "conflicts", "requests", "sectors", "local_loads", "local_stores",
    "l2_bytes", "dram_bytes", "instructions", "clock_hz",
)  # fmt: skip
WAITS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "no_instruction", "not_selected", "selected", "short_scoreboard",
    "sleeping", "tex_throttle", "wait",
)  # fmt: skip
_WAIT = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


@dataclass(frozen=True)
class Case:
    """Rungs of a ladder on one size. shapes: of the arrays; more: arguments after them; batch: of the record."""

    operator: str
    shapes: tuple[tuple[int, ...], ...]
    variants: tuple[str, ...]
    batch: int
    size: str
    precision: str = "fp32"
    layout: str = "NCHW"
    more: tuple[Any, ...] = ()

    def launches(self) -> Iterator[tuple[str, list[Any], Any]]:
        """(rung, all steps of a call, the launch of the rung's own kernel among them) for each rung."""
        random, dtype = np.random.default_rng(3), {"fp32": np.float32, "fp16": np.float16}[self.precision]
        arrays = [cuda.asarray(random.standard_normal(shape, np.float32).astype(dtype)) for shape in self.shapes]
        if self.layout != "NCHW":
            arrays = [cuda.to_layout(one, self.layout) if index == 0 else one for index, one in enumerate(arrays)]
        for variant in self.variants:
            with recorded() as steps:
                getattr(kernels, self.operator)(*arrays, *self.more, variant=variant)
            own = [one for one in steps if isinstance(one, Launch) and one.name == f"{self.operator}/{variant}"]
            yield variant, list(steps), own[0]


GEMM = (
    "naive", "coalesced", "shared_tiles", "register_column", "register_block", "vectorised", "warp_tiles",
    "double_buffered", "three_tf32",
)  # fmt: skip
GEMM_FP16 = ("tensor_cores", "warpgroups", "bulk_copies", "producer", "persistent")
CHANNELS = (32, 144, 56, 56), (144, 1, 3, 3)
FILTERS = (32, 64, 56, 56), (64, 64, 3, 3)
CASES = (
    Case("gemm", ((4096, 4096), (4096, 4096)), GEMM, 1, "4096×4096×4096"),
    Case("gemm", ((4096, 4096), (4096, 4096)), GEMM_FP16, 1, "4096×4096×4096", "fp16"),
    Case("add", ((256, 24, 56, 56),) * 2, ("naive", "vectorised"), 256, "56×56 24"),
    Case("global_avg_pool", ((256, 1280, 7, 7),), ("naive", "warp_per_channel"), 256, "7×7 1280"),
    Case("depthwise", CHANNELS, ("naive", "rows", "tile"), 32, "56×56 144", more=(None, 1, 1)),
    Case("depthwise", CHANNELS, ("register_tile", "async_tile"), 32, "56×56 144", layout="NHWC", more=(None, 1, 1)),
    Case("conv2d", FILTERS, ("direct", "implicit_gemm"), 32, "56×56 64>64", more=(None, 1, 1)),
    Case("winograd", FILTERS, ("fused_f2x2", "fused_f4x4"), 32, "56×56 64>64", more=(None, 1)),
)


def launch() -> None:
    """Run each case once as a warm-up, then the rung's own kernel once for the profiler."""
    import cupy

    for case in CASES:
        for _, steps, own in case.launches():
            for step in steps:
                step()
            cuda.synchronize()
            cupy.cuda.profiler.start()
            own()
            cuda.synchronize()
            cupy.cuda.profiler.stop()


def parse(text: str) -> list[dict[str, Any]]:
    """Parse ncu's output, in base units: one dict per launch, in order. ValueError if a metric is missing."""
    units, rows = rows_of(text)
    wanted = {**METRICS, **{name: _WAIT.format(name) for name in WAITS}}
    if missing := [theirs for theirs in wanted.values() if theirs not in units]:
        raise ValueError(f"ncu's table must have {', '.join(missing)}")
    found = []
    for row in rows:
        numbers = {ours: float(row[theirs].replace(",", "") or 0) for ours, theirs in wanted.items()}
        waits = {name: round(numbers.pop(name), 3) for name in WAITS}
        numbers["us"] *= 1e-3  # from ns
        for name in SHARES:
            numbers[name] /= 100
        rounded = {name: round(v) if name in COUNTS else round(v, 3) for name, v in numbers.items()}
        found.append({"kernel": row["Kernel Name"], **rounded, "waits": {k: v for k, v in waits.items() if v >= 0.01}})
    return found


def records(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records of the suite, one per rung. ValueError unless there are as many rows as rungs."""
    rungs = [(case, variant) for case in CASES for variant in case.variants]
    if len(rows) != len(rungs):
        raise ValueError(f"rows must be as many as there are rungs, {len(rungs)}, got {len(rows)}")
    return [
        {
            "suite": "sections", "case": f"{case.operator} {case.size}", "implementation": variant,
            "precision": case.precision,
            "batch": case.batch, "operator": case.operator, "order": order, **row,
        }
        for order, ((case, variant), row) in enumerate(zip(rungs, rows, strict=True), 1)
    ]  # fmt: skip


def superseded(rows: list[dict[str, Any]]) -> driver.Superseded:
    """A predicate for older records: all of the suite, which is measured as a whole."""
    return driver.same(rows, "suite")


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield all records at once. NoGpu on the simulator, RuntimeError if ncu is missing or fails."""
    if cuda.backend() != "gpu":
        raise NoGpu("the profiler counts on a GPU only; what was recorded is in 06_optimize/results")
    metrics = [*METRICS.values(), *(_WAIT.format(name) for name in WAITS)]
    rows = records(parse(ncu(metrics, [__spec__.name], "--profile-from-start", "off", "--print-units", "base")))
    shown = []
    for r in rows:
        worst = sorted(r["waits"].items(), key=lambda wait: -wait[1])[:3]
        shown.append(
            {"kernel": f"{r['operator']}/{r['implementation']}"}
            | {"waits": ", ".join(f"{name} {cycles:.1f}" for name, cycles in worst), "µs": f"{r['us']:,.1f}"}
            | {name: f"{r[name]:.0%}" for name in ("compute_throughput", "memory_throughput", "issue", "achieved")}
        )
    console.print(driver.table(shown, 2))
    yield rows, True


def programs() -> dict[str, str]:
    """The version of ncu."""
    return {"ncu": trace.programs()["ncu"]}


bench = driver.suite("sections", run, superseded, more=programs)


if __name__ == "__main__":
    launch()  # this program runs itself under a profiler
