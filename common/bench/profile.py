"""The suite "profile": what the hardware counts in each kernel of the network, and for what its warps wait.

This program runs again under ncu (Nsight Compute), which repeats every kernel alone, caches emptied before it, once for
each group of counters. So its µs are longer than those of the suite "network", most of all with few pictures; shares
and waits are what it is for.

    us, registers, instructions     of the kernel; of a thread; of all warps
    issue       instructions that a scheduler issues in a cycle, 1 at most; four schedulers a multiprocessor
    warps       of those that a multiprocessor can hold, the share that is there
    tensor      the share of cycles in which the tensor cores work
    shared      the share of what shared memory can deliver; conflicts: of its wavefronts, those for bank conflicts
    l2_bytes, dram_bytes
    waits       by reason, in how many of the cycles from one of its instructions to the next a warp waits for it
"""

import csv
import io
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console
from rich.table import Table

from .. import cuda, weights
from ..cuda.graphs import NoGpu
from ..network import Network
from . import driver
from .driver import Measured
from .network import composed

BATCHES = (1, 256)
PRECISIONS = ("fp32", "fp16")
METRICS = {
    "us": "gpu__time_duration.sum", "registers": "launch__registers_per_thread",
    "instructions": "smsp__inst_executed.sum", "issue": "smsp__inst_executed.avg.per_cycle_active",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l2_bytes": "lts__t_bytes.sum", "dram_bytes": "dram__bytes.sum",
}  # fmt: skip
WAITS = (
    "barrier", "membar", "short_scoreboard", "long_scoreboard", "wait", "math_pipe_throttle", "mio_throttle",
    "lg_throttle", "not_selected", "no_instruction", "dispatch_stall", "sleeping",
)  # fmt: skip
_WAIT = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 0.01}


def ncu(metrics: Iterable[str], program: Sequence[str], *more: str) -> str:
    """What ncu says of these metrics of each launch of a module of Python. RuntimeError if it is missing or fails."""
    command = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", *more, "--metrics", ",".join(metrics)]
    try:
        done = subprocess.run([*command, sys.executable, "-m", *program], capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("ncu, the profiler of the CUDA toolkit, must be on the PATH") from None
    if done.returncode:
        raise RuntimeError(f"ncu failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def rows_of(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """What ncu wrote, metrics by their names: (their units, their values launch by launch)."""
    units, *rows = csv.DictReader(line for line in io.StringIO(text) if line.startswith('"'))
    return units, rows


def parse(text: str) -> list[dict[str, Any]]:
    """What ncu wrote of the network, a dict a launch in their order. ValueError if a metric is missing."""
    units, rows = rows_of(text)
    wanted = {**METRICS, **{name: _WAIT.format(name) for name in WAITS}}
    missing = [theirs for theirs in wanted.values() if theirs not in units]
    if missing:
        raise ValueError(f"ncu's table must have {', '.join(missing)}")
    found = []
    for row in rows:
        counts = {
            ours: float(row[theirs].replace(",", "") or 0) * _UNITS.get(units[theirs], 1.0)
            for ours, theirs in wanted.items()
        }
        waits = {name: round(counts.pop(name), 2) for name in WAITS}
        counts["conflicts"] /= max(1.0, counts.pop("wavefronts"))
        whole = ("registers", "instructions", "l2_bytes", "dram_bytes")
        rounded = {name: round(v) if name in whole else round(v, 3) for name, v in counts.items()}
        found.append({"kernel": row["Kernel Name"], **rounded, "waits": {k: v for k, v in waits.items() if v >= 0.1}})
    return found


def records(rows: Sequence[dict[str, Any]], titles: Sequence[str], precision: str, batch: int) -> list[dict[str, Any]]:
    """Records of the suite, one a kernel. titles: what each computes. ValueError if there are more or fewer of them."""
    if len(rows) != len(titles):
        raise ValueError(f"rows must be as many as the network has launches, {len(titles)}, got {len(rows)}")
    return [
        {
            "suite": "profile", "case": f"{order:02} {title}", "implementation": "ours", "precision": precision,
            "batch": batch, "order": order, **row,
        }
        for order, (row, title) in enumerate(zip(rows, titles, strict=True), 1)
    ]  # fmt: skip


def program(precision: str, batch: int) -> Any:
    """Ours as the suite "network" puts it together."""
    model = weights.model("seeded")
    made = Network(model, dtype=precision, optimize=composed(batch)).program((batch, 3, 224, 224), arena=True)
    random = np.random.default_rng(0)
    made.input[...] = cuda.asarray(random.standard_normal(made.input.shape, np.float32).astype(made.input.dtype))
    return made


def launch(precision: str, batch: int) -> None:
    """The network, twice for itself and once for the profiler."""
    import cupy

    made = program(precision, batch)
    for _ in range(2):
        made.launch()
    cuda.synchronize()
    cupy.cuda.profiler.start()
    made.launch()
    cuda.synchronize()
    cupy.cuda.profiler.stop()


def profiled(precision: str, batch: int) -> list[dict[str, Any]]:
    """Records of the network's kernels. RuntimeError if ncu is missing or fails."""
    metrics = [*METRICS.values(), *(_WAIT.format(name) for name in WAITS)]
    said = ncu(metrics, [__spec__.name, precision, str(batch)], "--profile-from-start", "off")
    steps = program(precision, batch).steps
    return records(parse(said), [str(getattr(s, "title", s.layer.name)) for s in steps], precision, batch)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The records of one precision and batch, a line a kernel."""
    shown = []
    for r in rows:
        worst = sorted(r["waits"].items(), key=lambda wait: -wait[1])[:3]
        shown.append(
            {"kernel": r["case"], "waits for": ", ".join(f"{name} {cycles:.1f}" for name, cycles in worst)}
            | {"µs": f"{r['us']:.1f}", "issue": f"{r['issue']:.2f}"}
            | {head: f"{r[head.split()[0]]:.0%}" for head in ("warps", "tensor cores", "shared memory", "conflicts")}
        )
    return driver.table(shown, 2, f"batch {rows[0]['batch']}, {rows[0]['precision']}")


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to profile."""

    CHOICES: ClassVar = {"batches": (None, BATCHES), "precisions": (PRECISIONS, PRECISIONS)}


def superseded(rows: list[dict[str, Any]]) -> driver.Superseded:
    """Whether an older record is of the same precision and batch: of a network that had other kernels, perhaps."""
    return driver.same(rows, "suite", "precision", "batch")


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Records of one batch in one precision after the other. NoGpu on the simulator."""
    if cuda.backend() != "gpu":
        raise NoGpu("the profiler counts on a GPU only; what was recorded is in 06_optimize/results")
    for batch in options.batches:
        for precision in options.precisions:
            rows = profiled(precision, batch)
            console.print(table(rows))
            yield rows, True


bench = driver.suite("profile", run, superseded)


if __name__ == "__main__":
    launch(sys.argv[1], int(sys.argv[2]))
