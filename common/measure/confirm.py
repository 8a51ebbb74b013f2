"""Does the simulator's trace see what the hardware does? The kernels of trace_kernels.cu, traced and profiled.

    python -m common.measure.confirm            on a GPU machine with ncu and compute-sanitizer: print the comparison
    python -m common.measure.confirm --save     and write it into the results file of the card
    python -m common generate                   put the table of 04_kernels/README.md there, from the results file

Every number that the profiler gives is a sum over the launch: requests and sectors of global loads and stores,
wavefronts and bank conflicts of shared loads and stores.
"""

import csv
import io
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from . import results
from .environment import environment as measured_environment

SOURCE = Path(__file__).with_name("trace_kernels.cu")

# our name of a count: the profiler's
METRICS = {
    "global load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


@dataclass(frozen=True)
class Case:
    """One launch: `arguments(random)` gives what the kernel is called with, NumPy arrays first made for the backend."""

    name: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: Callable[[Any], list[Any]]


def _floats(random: Any, *shape: int) -> Any:
    return cuda.asarray(random.standard_normal(shape).astype(np.float32))


def _copy_case(name: str, kernel: str, n: int, *more: int, per_thread: int = 1) -> Case:
    threads = -(-n // per_thread)
    return Case(name, kernel, (-(-threads // 256),), (256,), lambda r: [_floats(r, n), _floats(r, n), n, *more])


def _square_case(kernel: str, n: int, matrices: int) -> Case:
    tiles = -(-n // 32)
    return Case(kernel, kernel, (tiles, tiles), (32, 32), lambda r: [*(_floats(r, n, n) for _ in range(matrices)), n])


def _window_case(name: str, kernel: str, channels: int, side: int, stride: int) -> Case:
    out = (side - 1) // stride + 1
    if kernel == "im2col":
        n = channels * 9 * out * out
        return Case(name, kernel, (-(-n // 256),), (256,), lambda r: [
            _floats(r, channels, side, side), _floats(r, n), side, side, out, out, stride, n])  # fmt: skip
    return Case(name, kernel, (-(-out * out // 64), channels), (64,), lambda r: [
        _floats(r, channels, side, side), _floats(r, channels, 9), _floats(r, channels, out, out),
        side, side, out, out, stride])  # fmt: skip


N = 100_003  # a prime, so that every kernel has a tail
CASES = [
    _copy_case("copy", "copy", N),
    _copy_case("copy, offset 1", "copy_offset", N, 1),
    _copy_case("copy, offset 8", "copy_offset", N, 8),
    _copy_case("copy, stride 2", "copy_strided", N, 2),
    _copy_case("copy, stride 8", "copy_strided", N, 8),
    _copy_case("copy, float4", "copy_float4", N, per_thread=4),
    Case(
        "copy, half2",
        "copy_half2",
        (196,),
        (256,),
        lambda r: [cuda.asarray(r.standard_normal(N).astype(np.float16)), cuda.empty(N, np.float16), N],
    ),
    _square_case("transpose_naive", 321, 2),
    _square_case("transpose_32", 321, 2),
    _square_case("transpose_33", 321, 2),
    *(
        Case(name, name, (-(-N // 256),), (256,), lambda r: [_floats(r, N), _floats(r, -(-N // 256)), N])
        for name in ("reduce_interleaved", "reduce_strided", "reduce_sequential", "reduce_shuffle")
    ),
    _square_case("sgemm", 128, 3),
    _window_case("im2col", "im2col", 3, 37, 1),
    _window_case("depthwise, stride 1", "depthwise", 5, 37, 1),
    _window_case("depthwise, stride 2", "depthwise", 5, 37, 2),
]
WRONG = {"race": ("wrong_race", (1,), "racecheck"), "out-of-bounds": ("wrong_bounds", (5,), "memcheck")}


def _prepared(case: Case, module: Any) -> tuple[Any, list[Any]]:
    return module.get_function(case.kernel), case.arguments(np.random.default_rng(1))


def predict() -> dict[str, dict[str, int]]:
    """What the trace counts, by case."""
    module = cuda.RawModule(SOURCE.read_text())
    counts = {}
    for case in CASES:
        kernel, arguments = _prepared(case, module)
        r = cuda.trace(kernel, case.grid, case.block, arguments)
        counts[case.name] = {
            "global load requests": r.global_loads.requests, "global load sectors": r.global_loads.sectors,
            "global store requests": r.global_stores.requests, "global store sectors": r.global_stores.sectors,
            "shared load wavefronts": r.shared_loads.wavefronts, "shared store wavefronts": r.shared_stores.wavefronts,
            "shared load conflicts": r.shared_loads.conflicts, "shared store conflicts": r.shared_stores.conflicts,
        }  # fmt: skip
    return counts


def _wrong_arguments() -> list[Any]:
    return [cuda.zeros(1000), cuda.zeros(1000)]


def launch(wrong: str | None = None) -> None:
    """Runs the cases one after the other, for a profiler to watch; or one of the wrong kernels, for a sanitizer."""
    import cupy

    cupy.cuda.set_allocator(None)  # arrays of their own, so that an access past the end is one
    module = cuda.RawModule(SOURCE.read_text())
    if wrong is not None:
        kernel, grid, _ = WRONG[wrong]
        module.get_function(kernel)(grid, (256,), _wrong_arguments())
    for case in [] if wrong else CASES:
        kernel, arguments = _prepared(case, module)
        kernel(case.grid, case.block, arguments)
    cuda.synchronize()


def measure() -> dict[str, dict[str, int]]:
    """What ncu counts, by case: this program is run again under it."""
    command = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--metrics", ",".join(METRICS.values())]
    done = subprocess.run([*command, sys.executable, "-m", __spec__.name, "--launch"], capture_output=True, text=True)
    text = done.stdout[done.stdout.find('"ID"') :]
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row.get("ID")]  # the row of units has none
    if done.returncode or len(rows) != len(CASES):
        raise RuntimeError(
            f"ncu gave {len(rows)} launches for {len(CASES)} cases:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    counts = {}
    for case, row in zip(CASES, rows, strict=True):
        if not row["Kernel Name"].startswith(case.kernel):
            raise RuntimeError(f"ncu's launch {row['ID']} is {row['Kernel Name']}, expected {case.kernel}")
        counts[case.name] = {ours: round(float(row[theirs].replace(",", ""))) for ours, theirs in METRICS.items()}
    return counts


def sanitize(kind: str) -> tuple[str, str]:
    """(what the trace finds, what compute-sanitizer finds) in the wrong kernel of a kind, a line each."""
    name, grid, tool = WRONG[kind]
    kernel = cuda.RawModule(SOURCE.read_text()).get_function(name)
    findings = [f for f in cuda.trace(kernel, grid, (256,), _wrong_arguments()).findings if f.kind == kind]
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "-m", __spec__.name, "--launch", kind]
    done = subprocess.run(command, capture_output=True, text=True)
    summary = [line.strip("= ") for line in done.stdout.splitlines() if "SUMMARY: " in line]
    return (str(findings[0]) if findings else "nothing"), (summary[0] if summary else "nothing")


def environment() -> dict[str, Any]:
    """Card, versions, date and commit of this run, and the two programs that counted."""
    ncu = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.splitlines()
    return measured_environment() | {
        "ncu": ncu[-1] if ncu else "",
        "compiler": cuda.simulator.find_compiler().version,
    }


def records(predicted: dict, measured: dict, wrong: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """Records of the suite "trace"."""
    made: list[dict[str, Any]] = [
        {
            "suite": "trace",
            "case": name,
            "implementation": "simulator",
            "predicted": predicted[name],
            "measured": measured[name],
        }
        for name in predicted
    ]
    made += [
        {
            "suite": "trace",
            "case": f"wrong: {kind}",
            "implementation": "simulator",
            "trace": ours,
            "compute-sanitizer": theirs,
        }
        for kind, (ours, theirs) in wrong.items()
    ]
    return made


# ---- The comparison in words and numbers, from the results file
COLUMNS = {  # of the table: the count it shows
    "sectors loaded": "global load sectors",
    "sectors stored": "global store sectors",
    "wavefronts of shared loads": "shared load wavefronts",
    "conflicts in them": "shared load conflicts",
}
# Why the profiler counts other things than the trace. A difference that is not explained here is an error.
REASONS = {
    (
        "sgemm",
        "shared load wavefronts",
    ): "the assembler merges shared loads. As written, a warp makes 64 requests in the"
    " 32 steps of the inner loop: 32 to `As`, 32 to `Bs`. `As[ty][k]`, `As[ty][k + 1]`, … lie side by side, so it loads"
    " four of them at once: 8 requests of 16 bytes, of 2 wavefronts each. 32 + 8 · 2 = 48 wavefronts in place of 64",
}


def comparison(path: Path | None = None) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """What the results file of the H200 says about tracing: (the run's environment, launches, wrong kernels)."""
    content = results.load(path or results.path_of("NVIDIA H200"))
    entries = [record for record in content["records"] if record["suite"] == "trace"]
    if not entries:
        raise ValueError("the results file holds no records of the suite trace")
    launches = [record for record in entries if "measured" in record]
    wrong = [record for record in entries if "compute-sanitizer" in record]
    return content["runs"][entries[0]["run"]], launches, wrong


def differences(record: dict[str, Any]) -> dict[str, tuple[int, int, str]]:
    """By count of a launch that differs: (predicted, measured, why). ValueError if nobody knows why."""
    different = {}
    for count, predicted in record["predicted"].items():
        measured = record["measured"][count]
        if measured != predicted:
            if (record["case"], count) not in REASONS:
                raise ValueError(
                    f"{record['case']}: {predicted} {count} traced, {measured} measured, and no reason is given"
                )
            different[count] = predicted, measured, REASONS[record["case"], count]
    return different


def table(path: Path | None = None) -> str:
    """Trace against profiler in Markdown: a table of launches, the differences, the wrong kernels."""
    environment, launches, wrong = comparison(path)
    version = re.search(r"\d{4}\.\d+\.\d+", environment["ncu"])
    equal = sum(not differences(record) for record in launches)
    counts = len(launches[0]["predicted"])
    lines = [
        f"{environment['card']}, {environment['date']}, Nsight Compute (`ncu`) {version[0] if version else 'unknown'}:"
        f" in {equal} of {len(launches)} launches all {counts} counts of the trace are equal to the profiler's.",
        "",
        f"| launch | {' | '.join(COLUMNS)} |",
        f"|---|{'---:|' * len(COLUMNS)}",
    ]
    for record in launches:
        cells = []
        for count in COLUMNS.values():
            predicted, measured = record["predicted"][count], record["measured"][count]
            cells.append(f"{predicted:,}" if predicted == measured else f"traced {predicted:,}, measured {measured:,}")
        lines.append(f"| {record['case'].replace('_', ' ')} | {' | '.join(cells)} |")
    for record in launches:
        for count, (predicted, measured, why) in differences(record).items():
            lines += ["", f"{record['case']}, {count}: {predicted:,} traced, {measured:,} measured: {why}."]
    lines += ["", "Wrong kernels, under the trace and under `compute-sanitizer`:", ""]
    lines += ["| kernel | the trace says | compute-sanitizer says |", "|---|---|---|"]
    for record in wrong:
        theirs = record["compute-sanitizer"].partition(". Use ")[0]  # an option
        lines.append(f"| {record['case'].removeprefix('wrong: ')} | {record['trace']} | {theirs} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--launch"]:
        launch(*arguments[1:])
        return
    predicted, measured = predict(), measure()
    wrong = {kind: sanitize(kind) for kind in WRONG}
    for name, counts in predicted.items():
        different = {k: (v, measured[name][k]) for k, v in counts.items() if v != measured[name][k]}
        print(f"{name:24s} {'equal' if not different else f'(predicted, measured) {different}'}")
    for kind, (ours, theirs) in wrong.items():
        print(f"{kind}: {ours} | {theirs}")
    if arguments[:1] == ["--save"]:
        here = environment()
        run = f"{here['date']}-trace-{here['commit']}"
        results.save(results.path_of(here["card"]), run, here, records(predicted, measured, wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
