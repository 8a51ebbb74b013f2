"""The suite "profile": hardware counters of each kernel of the network, and the stall reasons of its warps.

This program runs again under ncu (Nsight Compute), which replays every kernel alone, once for each group of counters.
Caches are as the replay before left them, which is closer to calls back to back than ncu's default, flushed ones. The
times are still longer than those of the suite "network", where kernels overlap; its purpose is the shares and stalls.

    us, registers, instructions     of the kernel; per thread; of all warps
    issue       instructions issued per scheduler and cycle, at most 1; a multiprocessor has four schedulers
    warps       achieved occupancy: active warps as a share of those that a multiprocessor can hold
    tensor      the share of cycles in which the tensor cores are active
    shared      the share of shared memory's peak bandwidth; conflicts: bank conflicts as a share of its wavefronts
    l2_bytes, dram_bytes
    waits       cycles per issued instruction in which a warp is stalled, by reason
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
    """ncu's output (CSV) for these metrics of each launch of a Python module. RuntimeError if ncu is missing or fails.

    program: the module and its arguments. more: further options of ncu.
    """
    command = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", *more, "--metrics", ",".join(metrics)]
    try:
        done = subprocess.run([*command, sys.executable, "-m", *program], capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("ncu, the profiler of the CUDA toolkit, must be on the PATH") from None
    if done.returncode:
        raise RuntimeError(f"ncu failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def rows_of(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Parse ncu's output: (units by metric, values by metric for each launch)."""
    units, *rows = csv.DictReader(line for line in io.StringIO(text) if line.startswith('"'))
    return units, rows


def parse(text: str) -> list[dict[str, Any]]:
    """Parse ncu's output for the network: one dict per launch, in order. ValueError if a metric is missing."""
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
        integers = ("registers", "instructions", "l2_bytes", "dram_bytes")
        rounded = {name: round(v) if name in integers else round(v, 3) for name, v in counts.items()}
        found.append({"kernel": row["Kernel Name"], **rounded, "waits": {k: v for k, v in waits.items() if v >= 0.1}})
    return found


def records(rows: Sequence[dict[str, Any]], titles: Sequence[str], precision: str, batch: int) -> list[dict[str, Any]]:
    """Records of the suite, one per kernel. titles: what each computes. ValueError unless there are as many as rows."""
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
    """The program of ours with the optimizations of the suite "network"."""
    model = weights.model("seeded")
    built = Network(model, dtype=precision, optimize=composed(batch)).program((batch, 3, 224, 224), arena=True)
    random = np.random.default_rng(0)
    built.input[...] = cuda.asarray(random.standard_normal(built.input.shape, np.float32).astype(built.input.dtype))
    return built


def launch(precision: str, batch: int) -> None:
    """Run the network twice as a warm-up, then once for the profiler."""
    import cupy

    built = program(precision, batch)
    for _ in range(2):
        built.launch()
    cuda.synchronize()
    cupy.cuda.profiler.start()
    built.launch()
    cuda.synchronize()
    cupy.cuda.profiler.stop()


def profiled(precision: str, batch: int) -> list[dict[str, Any]]:
    """Profile the network: one record per kernel. RuntimeError if ncu is missing or fails."""
    metrics = [*METRICS.values(), *(_WAIT.format(name) for name in WAITS)]
    options = "--profile-from-start", "off", "--cache-control", "none"
    output = ncu(metrics, [__spec__.name, precision, str(batch)], *options)
    steps = program(precision, batch).steps
    return records(parse(output), [str(getattr(s, "title", s.layer.name)) for s in steps], precision, batch)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The records of one precision and batch size as a table, one line per kernel."""
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
    """A predicate for older records of the same precision and batch size, whose kernels may have changed."""
    return driver.same(rows, "suite", "precision", "batch")


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield the records per batch size and precision. NoGpu on the simulator, RuntimeError if ncu is missing."""
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
