"""The suite "trace": whether the counts of the simulator's trace agree with those of the hardware.

The kernels of trace_kernels.cu are traced, then run under ncu; two wrong kernels run under compute-sanitizer. `python
-m common generate` writes the comparison into 04_kernels/README.md.

Every count is a sum over the launch: requests and sectors of global loads and stores, wavefronts and bank conflicts of
shared loads and stores.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from .. import cuda
from ..cuda.graphs import NoGpu
from ..kernels.ladder import header_options
from . import driver
from .driver import Measured, Options
from .profile import ncu, rows_of

SOURCE = Path(__file__).with_name("trace_kernels.cu")

# a count's name in records: the profiler's metrics whose sum it is. A copy by cp.async is a load of global memory and a
# store to shared memory: the profiler counts its load among the others, its store by itself (ldgsts).
METRICS = {
    "global load requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "global load sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "global store requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "global store sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "shared load wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "shared store wavefronts": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    ),
    "shared load conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",),
    "shared store conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One launch. arguments: from a random generator, the kernel's arguments, with NumPy arrays for device arrays."""

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


def _pattern_case(name: str, kernel: str, *numbers: int) -> Case:
    """One block of 256 threads through shared memory: numbers are the pattern's (divide, modulo, stride)."""
    lanes = {"float": 1, "float2": 2, "float4": 4}[kernel.split("_")[1]]
    return Case(name, kernel, (1,), (256,), lambda r: [_floats(r, 1024 * lanes), _floats(r, 256 * lanes), *numbers])


def _elements_case(name: str, dtype: Any) -> Case:
    return Case(name, name, (-(-EVEN // 256),), (256,), lambda r: [
        cuda.asarray(r.integers(0, 100, EVEN).astype(dtype)), cuda.empty(EVEN, dtype), EVEN])  # fmt: skip


def _matrices_case(name: str, *numbers: int) -> Case:
    return Case(name, "matrices", (1,), (32,), lambda r: [
        cuda.asarray(r.integers(0, 9, 2048).astype(np.uint32)), cuda.empty(128, np.uint32), *numbers])  # fmt: skip


def _async_case(width: int, stride: int) -> Case:
    floats = width // 4 * 128 * 7
    name = f"cp.async of {width} bytes" + (f", stride {stride}" if stride > 1 else "")
    return Case(name, f"async_{width}", (7,), (128,), lambda r: [_floats(r, floats), _floats(r, floats), stride])


N = 100_003  # a prime, so that every kernel has a tail
EVEN = 10_006  # for pairs of threads: two times a prime
ANY = 1024  # a modulo that changes nothing
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
    # loads of shared memory by width: divide, modulo, stride
    _pattern_case("float, stride 2", "load_float", 1, ANY, 2),
    _pattern_case("float, stride 3", "load_float", 1, ANY, 3),
    _pattern_case("float, two columns of 32", "load_float", 1, 16, 64),
    _pattern_case("float2", "load_float2", 1, ANY, 1),
    _pattern_case("float2, stride 2", "load_float2", 1, ANY, 2),
    _pattern_case("float2, one for all lanes", "load_float2", 32, ANY, 1),
    _pattern_case("float2, one for two lanes", "load_float2", 2, ANY, 1),
    _pattern_case("float2, the same for both halves", "load_float2", 1, 16, 1),
    _pattern_case("float4", "load_float4", 1, ANY, 1),
    _pattern_case("float4, stride 2", "load_float4", 1, ANY, 2),
    _pattern_case("float4, stride 3", "load_float4", 1, ANY, 3),
    _pattern_case("float4, one for all lanes", "load_float4", 32, ANY, 1),
    _pattern_case("float4, one for two lanes", "load_float4", 2, ANY, 1),
    _pattern_case("float4, one for four lanes", "load_float4", 4, ANY, 1),
    _pattern_case("float4, one for eight lanes", "load_float4", 8, ANY, 1),
    _pattern_case("float4, one for sixteen lanes", "load_float4", 16, ANY, 1),
    _pattern_case("float4, four in turn", "load_float4", 1, 4, 1),
    _pattern_case("float4, eight in turn", "load_float4", 1, 8, 1),
    _pattern_case("float4, sixteen in turn", "load_float4", 1, 16, 1),
    _pattern_case("float4, two in turn, apart", "load_float4", 1, 2, 8),
    # stores to shared memory by width: modulo, stride
    _pattern_case("store float, columns of 32", "store_float", 32, 32),
    _pattern_case("store float2", "store_float2", ANY, 1),
    _pattern_case("store float2, columns of 16", "store_float2", 16, 16),
    _pattern_case("store float4", "store_float4", ANY, 1),
    _pattern_case("store float4, columns of 8", "store_float4", 8, 32),
    _pattern_case("store float4, stride 3", "store_float4", ANY, 3),
    _elements_case("bytes", np.uint8),
    _elements_case("halves", np.float16),
    _elements_case("doubles", np.float64),
    # pitch, swizzled, transposed
    _matrices_case("ldmatrix, rows of 32 bytes", 2, 0, 0),
    _matrices_case("ldmatrix, rows of 128 bytes", 8, 0, 0),
    _matrices_case("ldmatrix, rows of 144 bytes", 9, 0, 0),
    _matrices_case("ldmatrix, swizzled", 8, 1, 0),
    _matrices_case("ldmatrix, transposed", 8, 1, 1),
    *(_async_case(width, stride) for width in (4, 8, 16) for stride in (1, 2)),
    _async_case(16, 8),
]
WRONG = {"race": ("wrong_race", (1,), "racecheck"), "out-of-bounds": ("wrong_bounds", (5,), "memcheck")}


def module() -> Any:
    """The module of trace_kernels.cu."""
    return cuda.RawModule(SOURCE.read_text(), options=header_options())


def _prepared(case: Case, kernels: Any) -> tuple[Any, list[Any]]:
    return kernels.get_function(case.kernel), case.arguments(np.random.default_rng(1))


def predict() -> dict[str, dict[str, int]]:
    """Run the cases on the simulator: the trace's counts by case, by name."""
    kernels = module()
    counts = {}
    for case in CASES:
        kernel, arguments = _prepared(case, kernels)
        r = cuda.trace(kernel, case.grid, case.block, arguments)
        counts[case.name] = {
            name: getattr(getattr(r, f"{memory}_{way}s"), what)
            for name in METRICS for memory, way, what in [name.split()]
        }  # fmt: skip
    return counts


def _wrong_arguments() -> list[Any]:
    return [cuda.zeros(1000), cuda.zeros(1000)]


def launch(wrong: str | None = None) -> None:
    """Run all cases for the profiler, or the kernel of WRONG named `wrong` for compute-sanitizer."""
    import cupy

    cupy.cuda.set_allocator(None)  # no memory pool: an access past an array's end leaves its allocation
    kernels = module()
    if wrong is not None:
        kernel, grid, _ = WRONG[wrong]
        kernels.get_function(kernel)(grid, (256,), _wrong_arguments())
    for case in [] if wrong else CASES:
        kernel, arguments = _prepared(case, kernels)
        kernel(case.grid, case.block, arguments)
    cuda.synchronize()


def measure() -> dict[str, dict[str, int]]:
    """Run this program under ncu: the profiler's counts by case, by name. RuntimeError if ncu is missing or fails."""
    _, rows = rows_of(ncu([one for several in METRICS.values() for one in several], [__spec__.name]))
    if len(rows) != len(CASES):
        raise RuntimeError(f"ncu gave {len(rows)} launches for {len(CASES)} cases")
    counts = {}
    for case, row in zip(CASES, rows, strict=True):
        if not row["Kernel Name"].startswith(case.kernel):
            raise RuntimeError(f"ncu's launch {row['ID']} is {row['Kernel Name']}, expected {case.kernel}")
        counts[case.name] = {
            ours: sum(round(float(row[one].replace(",", ""))) for one in theirs) for ours, theirs in METRICS.items()
        }
    return counts


def sanitize(kind: str) -> tuple[str, str]:
    """(the trace's finding, compute-sanitizer's finding) for a kernel of WRONG, one line each."""
    name, grid, tool = WRONG[kind]
    kernel = module().get_function(name)
    findings = [f for f in cuda.trace(kernel, grid, (256,), _wrong_arguments()).findings if f.kind == kind]
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "-m", __spec__.name, kind]
    done = subprocess.run(command, capture_output=True, text=True)
    summary = [line.strip("= ") for line in done.stdout.splitlines() if "SUMMARY: " in line]
    return (str(findings[0]) if findings else "nothing"), (summary[0] if summary else "nothing")


def programs() -> dict[str, str]:
    """The versions of ncu and of the simulator's compiler."""
    lines = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.splitlines()
    return {"ncu": lines[-1] if lines else "", "compiler": cuda.simulator.find_compiler().version}


def records(predicted: dict, measured: dict, wrong: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """Records of the suite "trace"."""
    entries: list[dict[str, Any]] = [
        {"case": name, "predicted": counts, "measured": measured[name]} for name, counts in predicted.items()
    ]
    entries += [
        {"case": f"wrong: {kind}", "trace": ours, "compute-sanitizer": theirs} for kind, (ours, theirs) in wrong.items()
    ]
    return [{"suite": "trace", "implementation": "simulator", **r} for r in entries]


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield all records at once; a count that differs is a result, not an error. NoGpu on the simulator."""
    if cuda.backend() != "gpu":
        raise NoGpu("the profiler counts on a GPU only; what was recorded is in 06_optimize/results")
    measured, predicted = measure(), predict()
    wrong = {kind: sanitize(kind) for kind in WRONG}
    for name, counts in predicted.items():
        different = {k: (v, measured[name][k]) for k, v in counts.items() if v != measured[name][k]}
        result = f"(predicted, measured) {different}" if different else "equal"
        console.print(f"{name:24s} {result}", soft_wrap=True)
    for kind, (ours, theirs) in wrong.items():
        console.print(escape(f"{kind}: {ours} | {theirs}"), soft_wrap=True)
    yield records(predicted, measured, wrong), True


bench = driver.suite("trace", run, more=programs)


if __name__ == "__main__":
    launch(*sys.argv[1:])  # this program runs itself under a profiler
