"""Traced and guarded launches: every access is checked, by the checked build of the kernel."""

import ctypes
import math
import platform
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import signature
from ..errors import KernelError
from ..report import Report
from . import compiler
from .binding import (
    ARRAYS_MAX,
    WORKERS_MAX,
    Arguments,
    FaultKind,
    MergedCode,
    TracedArray,
    TracedMemory,
    TracedShared,
    TraceRequest,
    runtime,
)
from .recording import Reader
from .symbols import Symbols

# Limits between two barriers: accesses and branches of a thread, and bytes for the record of all threads
STEPS_MAX, BYTES_MAX = 1 << 23, 3 << 30


@dataclass(frozen=True)
class _Variable:
    """A __device__ variable of the source, with the attributes of a parameter and of its array."""

    name: str
    size: int
    itemsize: int
    constant: bool


def run_guarded(kernel: Any, grid: tuple, block: tuple, args: Sequence[Any], shared_mem: int) -> None:
    """A launch in which every address is checked before the access. KernelError names line, thread, array and index."""
    check_platform()
    report = watch(kernel, kernel.recompiled(traced=True), grid, block, args, shared_mem, None, counting=False)
    if report.findings:
        unset = "".join(f"; {found}" for found in report.uninitialised)
        raise KernelError(f"{kernel.name}: {report.findings[0]}{unset}")


def check_platform() -> None:
    """Raise RuntimeError on systems without ELF files, which traces need."""
    if platform.system() != "Linux":
        raise RuntimeError(
            f"tracing and guarded launches are not available on {platform.system()}: they read ELF files, Linux's."
            " Plain launches work; on Windows use WSL, on macOS a Linux container or Colab."
        )


def _chosen_blocks(blocks: Any, count: int) -> np.ndarray:
    wanted = np.zeros(count, np.uint8)
    if blocks is None:
        wanted[:] = 1
    elif isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        if blocks < 1:
            raise ValueError(f"blocks must be at least 1, got {blocks}")
        wanted[: int(blocks)] = 1
    elif isinstance(blocks, Collection) and not isinstance(blocks, str):
        for number in blocks:
            if not isinstance(number, (int, np.integer)) or not 0 <= number < count:
                raise ValueError(f"blocks must be numbers from 0 to {count - 1}, got {number!r}")
            wanted[int(number)] = 1
    else:
        raise TypeError(f"blocks must be None, a number of blocks or a list of them, got {type(blocks).__name__}")
    return wanted


def watch(
    kernel: Any,
    traced: Any,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    shared_mem: int,
    blocks: Any,
    counting: bool,
    done: Callable[[], None] = lambda: None,
    widths: Mapping[int, tuple[int, int]] | None = None,
    alone: bool = False,
) -> Report:
    """Run a launch of `kernel` with its checked build `traced`, and return the Report.

    counting: whether to record requests and races, too; else only bad addresses. done: called when the results are in
    the arrays. widths: line → widths in bytes of the compiled kernel's (loads, stores) of shared memory, a bit each, as
    which the accesses of that line are counted. Other arguments and errors as of tracing.trace.
    """
    made, symbols = traced.module, Symbols.of(traced.module.path)
    limit = kernel.max_dynamic_shared_size_bytes
    size, threads = signature.check_sizes(grid, block, shared_mem, limit, traced.cluster)
    prepared = Arguments(traced.name, traced.parameters, args)
    watched = len(prepared.where) + len(symbols.variables)
    if watched > ARRAYS_MAX:
        raise ValueError(f"args: at most {ARRAYS_MAX} arrays and __device__ variables can be traced, got {watched}")
    count = size[0] * size[1] * size[2]
    workers = count if made.cooperative else traced.workers()
    if workers > WORKERS_MAX:
        raise ValueError(f"grid: at most {WORKERS_MAX} blocks of a cooperative launch can be traced, got {count}")
    wanted = _by_cluster(_chosen_blocks(blocks, count), size, traced.cluster)
    published = np.zeros(count, np.uint8)
    guards = np.array(symbols.guards, np.uint64)
    shared = (TracedShared * len(symbols.shared))(*(TracedShared(low, high) for low, high, _ in symbols.shared))
    request = TraceRequest(counting=counting, wanted=wanted.ctypes.data, published=published.ctypes.data,
                            worker_count=workers, cluster_size=math.prod(traced.cluster), alone=alone,
                            guard_count=len(guards), guards=guards.ctypes.data, shared_count=len(shared),
                            shared_arrays=shared, steps_max=STEPS_MAX, bytes_max=BYTES_MAX)  # fmt: skip
    merged = (
        [MergedCode(low, high, line, *widths[line]) for low, high, line in symbols.code_of(widths)] if widths else []
    )
    request.merged_count, request.merged_code = len(merged), (MergedCode * len(merged))(*merged)
    _describe_arrays(request, prepared.where)
    arrays = [*prepared.where, *_describe_variables(request, symbols, made.variables.base, kernel.origin[0])]
    try:
        fault = traced.launch(size, threads, prepared, shared_mem, trace=ctypes.addressof(request), workers=workers,
                              owner=getattr(kernel, "module", None))  # fmt: skip
        if counting:
            runtime().sim_trace_between_blocks(ctypes.byref(request))
        dynamic = compiler.dynamic_shared_name(kernel.origin[0])
        reader = Reader(
            request, workers, symbols, arrays, size, threads, traced.cluster, shared_mem,
            dynamic or "shared memory", kernel.origin[0],
        )  # fmt: skip
        findings = reader.findings()
        if fault.kind != FaultKind.NO_FAULT:
            findings.append(reader.fault(fault, traced.describe_fault(fault, prepared, shared_mem)))
        result = Report(
            kernel=kernel.name, grid=size, block=threads, traced_blocks=int(wanted.sum()), source=kernel.origin[0],
            lines=reader.lines(), findings=tuple(findings), requests=reader.requests(),
            uninitialised=made.uninitialised, missed=reader.missed(),
            bytes_in_flight=reader.in_flight(),
        )  # fmt: skip
    finally:
        runtime().sim_trace_free(ctypes.byref(request))
    prepared.copy_back()
    done()
    return result


def _by_cluster(wanted: np.ndarray, grid: tuple, cluster: tuple) -> np.ndarray:
    """The blocks to trace as flags in the runtime's order, cluster by cluster; clusters are traced completely."""
    blocks = math.prod(cluster)
    if blocks == 1:
        return wanted
    (x, y, z), (cx, cy, cz) = grid, cluster
    split = wanted.reshape(z // cz, cz, y // cy, cy, x // cx, cx)
    chosen = split.transpose(0, 2, 4, 1, 3, 5).reshape(-1, blocks).any(1)
    return np.repeat(chosen, blocks).astype(np.uint8)


def _describe_arrays(request: TraceRequest, where: list) -> None:
    """Enter the arrays of a launch into the request, and their ranges of memory: overlapping arrays share one."""
    request.array_count = len(where)
    last = -1
    for i in sorted(range(len(where)), key=lambda i: where[i][2]):
        parameter, array, low, _ = where[i]
        high = low + array.nbytes
        grain = math.gcd(array.itemsize, 16)
        if last < 0 or low >= request.memories[last].high:
            last += 1
            request.memories[last] = TracedMemory(low, high, grain, False)
        memory = request.memories[last]
        memory.high = max(memory.high, high)
        memory.grain = math.gcd(memory.grain, grain, low - memory.low)
        memory.writable |= not parameter.constant
        request.arrays[i] = TracedArray(low, high, array.itemsize, last, parameter.constant)
    request.memory_count = last + 1


_CONSTANT = re.compile(r"__constant__([^;={\[]*)")  # up to the variable's name


def _constants(source: str) -> set[str]:
    """The names of the __constant__ variables of a source."""
    declared = (found[1].split() for found in _CONSTANT.finditer(signature.without_comments(source)))
    return {words[-1] for words in declared if words}


def _describe_variables(request: TraceRequest, symbols: Symbols, base: int, source: str) -> list[tuple]:
    """Enter the __device__ variables into the request as further arrays; return their entries for Reader.

    base: the load address of the library.
    """
    constants = _constants(source)
    found = []
    for low, high, name, each in symbols.variables:
        constant = name in constants
        number, memory = request.array_count, request.memory_count
        request.memories[memory] = TracedMemory(base + low, base + high, math.gcd(each, 16), True)
        request.arrays[number] = TracedArray(base + low, base + high, each, memory, 2 if constant else 0)
        request.array_count, request.memory_count = number + 1, memory + 1
        variable = _Variable(name, (high - low) // each, each, constant)
        found.append((variable, variable, base + low, None))
    return found
