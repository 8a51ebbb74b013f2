"""The suite "inspect": whether cuda.inspect says of a kernel what the profiler says when the kernel runs.

The rungs of the ladders and the kernels of trace_kernels.cu are inspected, then run under ncu: registers, static shared
memory, and the blocks per multiprocessor that each resource allows. `python -m common generate` writes the comparison
into 04_kernels/README.md.

Both sides compile with the NVRTC of this machine. Only launches count, no times.
"""

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from .. import cuda, kernels
from ..cuda import nvrtc
from ..cuda.graphs import NoGpu
from ..cuda.machine_code import CARDS, Inspection
from ..kernels import inspected as rungs
from ..kernels.ladder import Launch, compile_together, recorded
from . import driver, trace
from .driver import Measured, Options
from .profile import ncu, rows_of

# a number's name in records: the profiler's metric
METRICS = {
    "registers": "launch__registers_per_thread",
    "static shared bytes": "launch__shared_mem_per_block_static",
    "blocks by threads": "launch__occupancy_limit_warps",
    "blocks by registers": "launch__occupancy_limit_registers",
    "blocks by shared memory": "launch__occupancy_limit_shared_mem",
    "most blocks": "launch__occupancy_limit_blocks",
    "warps": "sm__maximum_warps_per_active_cycle_pct",  # a share, in percent of the most warps
}
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITS = {"warps": "blocks by threads", "registers": "blocks by registers",
          "shared memory": "blocks by shared memory", "blocks": "most blocks"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One kernel. inspect: for a card. prepare: (steps, the one to profile); the steps before it are run as well."""

    name: str
    inspect: Callable[[str], Inspection]
    prepare: Callable[[], tuple[list[Any], Any]]


def _rung(operator: str, variant: str, dtype: str, layout: str) -> Case:
    function = getattr(kernels, operator)

    def prepare() -> tuple[list[Any], Any]:
        with recorded() as launches:
            rungs.typical_call(function, operator, variant, dtype, layout)
        own = [one for one in launches if isinstance(one, Launch) and one.name == f"{operator}/{variant}"]
        return list(launches), own[0]

    def inspect(card: str) -> Inspection:
        return kernels.inspect(operator, variant, dtype=dtype, layout=layout, arch=CARDS[card].arch)

    precision = {"float32": "fp32", "float16": "fp16"}[dtype]
    return Case(f"{operator}/{variant} {precision} {layout}", inspect, prepare)


def _of_trace(case: trace.Case) -> Case:
    def kernel() -> Any:
        return trace.module().get_function(case.kernel)

    def prepare() -> tuple[list[Any], Any]:
        made, arguments = kernel(), case.arguments(np.random.default_rng(1))
        launch = functools.partial(made, case.grid, case.block, arguments)
        return [launch], launch

    return Case(case.name, lambda card: cuda.inspect(kernel(), case.block, arch=CARDS[card].arch), prepare)


def cases(capability: int) -> list[Case]:
    """Every rung that has a kernel and runs on a card of that compute capability, once for each dtype; trace's kernels.

    In the first layout that a rung takes.
    """
    found = []
    for operator in rungs.TYPICAL:
        for variant in kernels.variants(operator):
            if not _has_kernel(operator, variant) or kernels.requires(operator, variant) > capability:
                continue
            for dtype in ("float32", "float16"):
                able = [one for one in ("NCHW", "NHWC") if variant in kernels.variants(operator, dtype, one)]
                found += [_rung(operator, variant, dtype, layout) for layout in able[:1]]
    seen: set[str] = set()
    for case in trace.CASES:
        if case.kernel not in seen:
            seen.add(case.kernel)
            found.append(_of_trace(case))
    return found


def _has_kernel(operator: str, variant: str) -> bool:
    try:
        kernels.source(operator, variant)
    except ValueError:  # composed of other operators
        return False
    return True


def predict(card: str, capability: int) -> dict[str, dict[str, int]]:
    """Inspect the cases for a card of CARDS: METRICS' numbers by case, by name."""
    numbers = {}
    every = cases(capability)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        inspections = list(pool.map(lambda case: case.inspect(card), every))
    for case, found in zip(every, inspections, strict=True):
        fits = found.occupancy(card)
        numbers[case.name] = {
            "registers": found.registers, "static shared bytes": found.resources.shared, "warps": fits.warps,
            **{theirs: fits.limits[ours] for ours, theirs in LIMITS.items()},
        }  # fmt: skip
    return numbers


def launch() -> None:
    """Run the cases for the profiler."""
    import cupy

    every = [case.prepare() for case in cases(cuda.compute_capability())]
    compile_together(step for steps, _ in every for step in steps)
    for steps, own in every:
        for step in steps:
            if step is own:
                cuda.synchronize()
                cupy.cuda.profiler.start()
            step()
            if step is own:
                cuda.synchronize()
                cupy.cuda.profiler.stop()
                break


def measure(card: str, capability: int) -> dict[str, tuple[dict[str, int], float]]:
    """Run this program under ncu: (METRICS' numbers, achieved warps as a share) by case. RuntimeError if ncu fails."""
    output = ncu(
        [*METRICS.values(), ACHIEVED], [__spec__.name], "--profile-from-start", "off", "--print-units", "base"
    )  # fmt: skip
    return read(output, [case.name for case in cases(capability)], CARDS[card].warps)


def read(output: str, names: list[str], warps: int) -> dict[str, tuple[dict[str, int], float]]:
    """Parse ncu's output: see `measure`. warps: the most of a multiprocessor. RuntimeError unless each has a row."""
    _, rows = rows_of(output)
    if len(rows) != len(names):
        raise RuntimeError(f"ncu gave {len(rows)} launches for {len(names)} cases")
    found = {}
    for name, row in zip(names, rows, strict=True):
        values = {ours: float(row[theirs].replace(",", "")) for ours, theirs in METRICS.items()}
        values["warps"] *= warps / 100
        numbers = {ours: round(value) for ours, value in values.items()}
        found[name] = numbers, round(float(row[ACHIEVED].replace(",", "")) / 100, 3)
    return found


def records(
    inspected: dict[str, dict[str, int]], profiled: dict[str, tuple[dict[str, int], float]]
) -> list[dict[str, Any]]:
    """Records of the suite "inspect"."""
    return [
        {
            "suite": "inspect", "implementation": "machine code", "case": name, "inspected": numbers,
            "profiled": profiled[name][0], "achieved": profiled[name][1],
        }
        for name, numbers in inspected.items()
    ]  # fmt: skip


def programs() -> dict[str, str]:
    """The versions of ncu and of NVRTC."""
    return {"ncu": trace.programs()["ncu"], "nvrtc": ".".join(map(str, nvrtc.version()))}


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield all records at once; a number that differs is a result, not an error. NoGpu on the simulator."""
    if cuda.backend() != "gpu":
        raise NoGpu("the profiler counts on a GPU only; what was recorded is in 06_optimize/results")
    capability = cuda.compute_capability()
    card = rungs.card_of(f"sm_{capability}")
    profiled, inspected = measure(card, capability), predict(card, capability)
    for name, numbers in inspected.items():
        measured = profiled[name][0]
        different = {what: (n, measured[what]) for what, n in numbers.items() if n != measured[what]}
        result = f"(inspected, profiled) {different}" if different else "equal"
        console.print(f"{name:48s} {result}", soft_wrap=True)
    yield records(inspected, profiled), True


bench = driver.suite("inspect", run, more=programs)


if __name__ == "__main__":
    launch()  # this program runs itself under a profiler
