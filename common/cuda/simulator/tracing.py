"""Running a launch with every access seen: the call behind cuda.trace, and what the runtime recorded as a Report."""

import ctypes
import functools
import math
import platform
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import report as reports
from .. import signature
from ..errors import KernelError
from ..report import Counts, LineCounts, Report
from . import compiler, module, proof
from .memory import fenced

if TYPE_CHECKING:
    from .symbols import Symbols

_ARRAYS_MAX, _WORKERS_MAX = 64, 256
# What a thread may do between two barriers, memory accesses and branches, and the bytes that all of them may fill
STEPS_MAX, BYTES_MAX = 1 << 23, 3 << 30
_IN_SHARED, _IN_NOTHING = -1, -2
_KINDS = ("load", "store", "atomic")
_FINDINGS = (
    "race", "out-of-bounds", "uninitialised-read", "divergent-barrier", "deadlock", "misaligned", "absent-block",
    "absent-block", "out-of-bounds", "out-of-bounds", "out-of-bounds",
)  # fmt: skip
_NOT_STARTED, _BAD_INDEX, _LOCAL_OVERRUN, _BAD_COPY = 6, 8, 9, 10
_SEVERAL = 0xFFFF


class _TracedArray(ctypes.Structure):  # these stand in runtime/trace.h
    _fields_ = [
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("itemsize", ctypes.c_uint32), ("memory", ctypes.c_int32),
        ("constant", ctypes.c_int32),
    ]  # fmt: skip


class _TracedMemory(ctypes.Structure):
    _fields_ = [
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("grain", ctypes.c_uint32), ("writable", ctypes.c_int32),
    ]  # fmt: skip


class _TraceRequest(ctypes.Structure):
    _fields_ = [
        ("array_count", ctypes.c_int), ("memory_count", ctypes.c_int), ("counting", ctypes.c_int),
        ("worker_count", ctypes.c_int), ("cluster_size", ctypes.c_int),
        ("arrays", _TracedArray * _ARRAYS_MAX), ("memories", _TracedMemory * _ARRAYS_MAX),
        ("wanted", ctypes.c_void_p), ("published", ctypes.c_void_p),
        ("guard_count", ctypes.c_int), ("guards", ctypes.c_void_p),
        ("shared_count", ctypes.c_int), ("shared_arrays", ctypes.c_void_p),
        ("steps_max", ctypes.c_int64), ("bytes_max", ctypes.c_uint64), ("workers", ctypes.c_void_p * _WORKERS_MAX),
    ]  # fmt: skip


class _Site(ctypes.Structure):
    _fields_ = [
        ("pc", ctypes.c_uint64), ("array", ctypes.c_int32), ("size", ctypes.c_uint8), ("kind", ctypes.c_uint8),
        ("accesses", ctypes.c_uint64), ("requests", ctypes.c_uint64), ("units", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("most", ctypes.c_uint64),
        ("warps", ctypes.c_uint32), ("lanes", ctypes.c_uint32),
    ]  # fmt: skip


class _Request(ctypes.Structure):
    _fields_ = [
        ("pc", ctypes.c_uint64), ("array", ctypes.c_int32), ("size", ctypes.c_uint8), ("kind", ctypes.c_uint8),
        ("block", ctypes.c_uint32), ("warp", ctypes.c_uint32), ("lanes", ctypes.c_uint32),
        ("addresses", ctypes.c_uint64 * 32),
    ]  # fmt: skip


class _Finding(ctypes.Structure):
    _fields_ = [
        ("pc", ctypes.c_uint64), ("other_pc", ctypes.c_uint64), ("kind", ctypes.c_int32), ("array", ctypes.c_int32),
        ("access", ctypes.c_int32), ("size", ctypes.c_uint32), ("block", ctypes.c_uint32), ("thread", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32), ("other_thread", ctypes.c_uint32), ("owner", ctypes.c_uint32),
        ("offset", ctypes.c_int64), ("count", ctypes.c_uint64), ("rank", ctypes.c_int32), ("length", ctypes.c_int32),
        ("type", ctypes.c_char * 64),
    ]  # fmt: skip


@dataclass(frozen=True)
class _Variable:
    """A __device__ variable of the source, as if it were a parameter and its array."""

    name: str
    size: int
    itemsize: int
    constant: bool


@functools.cache
def _runtime() -> ctypes.CDLL:
    library = module.runtime()
    for name in ("sites", "requests", "findings"):
        function = getattr(library, f"sim_trace_{name}")
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
    for function in (library.sim_trace_module, library.sim_trace_static_bytes):
        function.restype = ctypes.c_uint64
        function.argtypes = [ctypes.c_void_p]
    library.sim_trace_between_blocks.argtypes = [ctypes.POINTER(_TraceRequest)]
    library.sim_trace_free.argtypes = [ctypes.POINTER(_TraceRequest)]
    return library


@functools.lru_cache(maxsize=64)
def _traced_module(
    code: str, options: tuple, expressions: tuple, cooperative: bool
) -> "tuple[module.SimulatedModule, Symbols]":
    made = module.SimulatedModule(code, options, expressions, cooperative, traced=True)
    return made, _symbols(made.path)


@functools.lru_cache(maxsize=64)
def _symbols(library: Path) -> "Symbols":
    from .symbols import Symbols  # (reads debug information; not needed by plain launches)

    return Symbols(library)


def _checked(kernel: Any) -> "tuple[module.SimulatedModule, Symbols]":
    """The checked build of a kernel's module; its own, if it is one."""
    own = getattr(kernel, "_module", None)
    if isinstance(own, module.SimulatedModule) and own.traced:
        return own, _symbols(own.path)
    return _traced_module(*kernel.origin)


def prepare_trace(kernel: Any) -> None:
    """Compiles what cuda.trace(kernel, ...) runs, and tries the compiler if it is new, so that a trace only runs it.

    Errors as of cuda.trace. compiler.listeners hear when a compiler is at work.
    """
    _check_platform()
    proof.prove(_trace_probe)
    _checked(kernel)


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


def trace(
    kernel: Any, grid: tuple, block: tuple, args: Sequence[Any], shared_mem: int = 0, blocks: Any = None
) -> Report:
    """Runs a launch on the simulator with every memory access seen, and reports what a profiler and a sanitizer would.

    kernel: from cuda.RawKernel or RawModule.get_function. grid, block, args, shared_mem: as for a call of it; the
    outputs are written as by that call, except by threads that were stopped at a bad address. On a GPU machine, too,
    the simulator runs it, over copies of the arrays. blocks: how many blocks to watch, from the first, or their
    numbers (x + gridDim.x · (y + gridDim.y · z)), and with each the others of its cluster; None: all. Errors as for a
    call, but for what the report's findings say; RuntimeError on a system without ELF files, and for a compiler whose
    counts are not those of theory (proof.py).

    Shared memory of another block of a cluster is counted as a block's own: no profiler tells what it costs.

    Compiled by g++, hundreds of random programs are counted as a brute-force model of lockstep warps counts them
    (tests/trace/lockstep.py). By clang all kernels of the tests are, and of the random programs about 96 in a hundred:
    clang moves the blocks of loops within loops that lanes leave at different times.
    """
    _check_platform()
    proof.prove(_trace_probe)
    arguments, give_back = _on_the_simulator(args)
    return _watch(kernel, grid, block, arguments, shared_mem, blocks, counting=True, done=give_back)


def run_guarded(kernel: Any, grid: tuple, block: tuple, args: Sequence[Any], shared_mem: int) -> None:
    """A plain launch in which every address is checked before it is used: KernelError names line, thread and index."""
    _check_platform()
    report = _watch(kernel, grid, block, args, shared_mem, None, counting=False, done=lambda: None)
    if report.findings:
        unset = "".join(f"; {found}" for found in report.uninitialised)
        raise KernelError(f"{kernel.name}: {report.findings[0]}{unset}")


def _check_platform() -> None:
    if platform.system() != "Linux":
        raise RuntimeError(
            f"tracing and guarded launches are not available on {platform.system()}: they read ELF files, Linux's."
            " Plain launches work; on Windows use WSL, on macOS a Linux container or Colab."
        )


def _trace_probe(source: str, name: str, grid: tuple, block: tuple, args: list) -> Report:
    kernel = module.SimulatedModule(source, traced=True).get_function(name)
    return _watch(kernel, grid, block, args, 0, None, counting=True, done=lambda: None)


def _watch(
    kernel: Any, grid: tuple, block: tuple, args: Sequence[Any], shared_mem: int, blocks: Any, counting: bool, done: Any
) -> Report:
    """A launch of the kernel compiled for tracing. `done` is called when its results stand in the arrays."""
    made, symbols = _checked(kernel)
    traced = made.get_function(kernel.name)
    limit = kernel.max_dynamic_shared_size_bytes
    size, threads = signature.check_sizes(grid, block, shared_mem, limit, traced.cluster)
    prepared = module.Arguments(traced, args)
    watched = len(prepared.where) + len(symbols.variables)
    if watched > _ARRAYS_MAX:
        raise ValueError(f"args: at most {_ARRAYS_MAX} arrays and __device__ variables can be traced, got {watched}")
    count = size[0] * size[1] * size[2]
    workers = count if made.cooperative else traced.workers()
    if workers > _WORKERS_MAX:
        raise ValueError(f"grid: at most {_WORKERS_MAX} blocks of a cooperative launch can be traced, got {count}")
    wanted = _by_cluster(_chosen_blocks(blocks, count), size, traced.cluster)
    published = np.zeros(count, np.uint8)
    guards = np.array(symbols.guards, np.uint64)
    shared = np.array([array[:2] for array in symbols.shared], np.uint64).reshape(-1, 2)
    request = _TraceRequest(counting=counting, wanted=wanted.ctypes.data, published=published.ctypes.data,
                            worker_count=workers, cluster_size=math.prod(traced.cluster), guard_count=len(guards),
                            guards=guards.ctypes.data, shared_count=len(shared),
                            shared_arrays=shared.ctypes.data, steps_max=STEPS_MAX, bytes_max=BYTES_MAX)  # fmt: skip
    _describe_arrays(request, prepared.where)
    arrays = [*prepared.where, *_describe_variables(request, symbols, made.variables.base, kernel.origin[0])]
    try:
        fault = traced.launch(size, threads, prepared, shared_mem, trace=ctypes.addressof(request), workers=workers,
                              owner=getattr(kernel, "_module", None))  # fmt: skip
        if counting:
            _runtime().sim_trace_between_blocks(ctypes.byref(request))
        dynamic = compiler.dynamic_shared_name(kernel.origin[0])
        reader = _Reader(
            request, workers, symbols, arrays, size, threads, traced.cluster, shared_mem,
            dynamic or "shared memory", kernel.origin[0],
        )  # fmt: skip
        findings = reader.findings()
        if fault.kind != module.NO_FAULT:
            findings.append(reader.fault(fault, traced.what_stopped(fault, prepared, shared_mem)))
        result = Report(
            kernel=kernel.name, grid=size, block=threads, traced_blocks=int(wanted.sum()), source=kernel.origin[0],
            lines=reader.lines(), findings=tuple(findings), requests=reader.requests(),
            uninitialised=made.uninitialised,
        )  # fmt: skip
    finally:
        _runtime().sim_trace_free(ctypes.byref(request))
    prepared.give_back()
    done()
    return result


def _by_cluster(wanted: np.ndarray, grid: tuple, cluster: tuple) -> np.ndarray:
    """Which blocks to watch, in the order of the runtime, cluster by cluster, and whole clusters of them."""
    blocks = math.prod(cluster)
    if blocks == 1:
        return wanted
    (x, y, z), (cx, cy, cz) = grid, cluster
    split = wanted.reshape(z // cz, cz, y // cy, cy, x // cx, cx)
    chosen = split.transpose(0, 2, 4, 1, 3, 5).reshape(-1, blocks).any(1)
    return np.repeat(chosen, blocks).astype(np.uint8)


def _describe_arrays(request: _TraceRequest, where: list) -> None:
    """The arrays of a launch and the pieces of memory that they lie in: arrays that overlap share one."""
    request.array_count = len(where)
    last = -1
    for i in sorted(range(len(where)), key=lambda i: where[i][2]):
        parameter, array, low, _ = where[i]
        high = low + array.nbytes
        grain = math.gcd(array.itemsize, 16)
        if last < 0 or low >= request.memories[last].high:
            last += 1
            request.memories[last] = _TracedMemory(low, high, grain, False)
        memory = request.memories[last]
        memory.high = max(memory.high, high)
        memory.grain = math.gcd(memory.grain, grain, low - memory.low)
        memory.writable |= not parameter.constant
        request.arrays[i] = _TracedArray(low, high, array.itemsize, last, parameter.constant)
    request.memory_count = last + 1


_CONSTANT = re.compile(r"__constant__[^;={]*?\b(\w+)\s*(?:\[[^;={]*)?[;={]")


def _describe_variables(request: _TraceRequest, symbols: "Symbols", base: int, source: str) -> list[tuple]:
    """The __device__ variables as further arrays of a launch, each its own memory, and what _Reader needs of them."""
    constants = set(_CONSTANT.findall(signature.without_comments(source)))
    found = []
    for low, high, name, each in symbols.variables:
        constant = name in constants
        number, memory = request.array_count, request.memory_count
        request.memories[memory] = _TracedMemory(base + low, base + high, math.gcd(each, 16), True)
        request.arrays[number] = _TracedArray(base + low, base + high, each, memory, 2 if constant else 0)
        request.array_count, request.memory_count = number + 1, memory + 1
        variable = _Variable(name, (high - low) // each, each, constant)
        found.append((variable, variable, base + low, None))
    return found


def _on_the_simulator(args: Sequence[Any]) -> tuple[list[Any], Any]:
    """The arguments with CuPy arrays as NumPy copies of the same order, and a function that copies the results back.

    An array that is passed twice is one copy. Different views of one array are different copies.
    """
    copies: dict[tuple, tuple[Any, np.ndarray, np.ndarray]] = {}
    arguments = []
    for argument in args:
        if type(argument).__module__.split(".")[0] == "cupy":
            key = (argument.data.ptr, argument.shape, argument.strides, argument.dtype)
            if key not in copies:
                before = argument.get()
                turned = before.flags.f_contiguous and not before.flags.c_contiguous
                copy = fenced(before.shape[::-1], before.dtype).T if turned else fenced(before.shape, before.dtype)
                copy[...] = before
                copies[key] = argument, copy, before
            argument = copies[key][1]
        arguments.append(argument)

    def give_back() -> None:
        for original, copy, before in copies.values():
            if copy.tobytes() != before.tobytes():
                original.set(copy)

    return arguments, give_back


class _Reader:
    """What the workers of a traced launch recorded, in the words of a Report."""

    def __init__(
        self,
        request: Any,
        workers: int,
        symbols: "Symbols",
        arrays: list,
        grid: tuple,
        block: tuple,
        cluster: tuple,
        dynamic: int,
        name: str,
        source: str,
    ) -> None:
        self._source = source.splitlines()
        self._traces = [request.workers[w] for w in range(workers) if request.workers[w]]
        self._symbols, self._arrays, self._grid, self._block, self._cluster = symbols, arrays, grid, block, cluster
        statics = _runtime().sim_trace_static_bytes(self._traces[0]) if self._traces else 0
        self._shared_arrays = sorted(symbols.shared)  # low, high, name; the dynamic part lies behind the static one
        if dynamic:
            self._shared_arrays.append((statics, statics + dynamic, name))

    def _read(self, what: str, structure: Any) -> list[tuple[Any, int]]:
        """Records of a kind from every worker, each with the address at which its code was loaded."""
        records = []
        for trace in self._traces:
            count = ctypes.c_int64()
            address = getattr(_runtime(), f"sim_trace_{what}")(trace, ctypes.byref(count))
            base = _runtime().sim_trace_module(trace)
            if count.value:
                records += [(r, base) for r in (structure * count.value).from_address(address)]
        return records

    def _line(self, pc: int, base: int) -> int:
        return self._symbols.line(pc - base) if pc else 0

    def _array(self, number: int, offset: int) -> str:
        if number >= 0:
            return self._arrays[number][0].name
        return self._shared(offset)[2]

    def _shared(self, offset: int) -> tuple[int, int, str]:
        """The array (first byte, end, name) of shared memory at an offset, or the one nearest to it."""
        nearest = min(
            self._shared_arrays,
            key=lambda array: max(array[0] - offset, offset - array[1] + 1, 0),
            default=(0, 0, "shared memory"),
        )
        return nearest

    def _thread(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self._block
        return number % x, number // x % y, number // (x * y)

    def _block_index(self, number: int) -> tuple[int, int, int]:
        """Where a block stands; the runtime numbers them cluster by cluster."""
        cluster, inside = divmod(number, math.prod(self._cluster))
        cx, cy, _ = self._cluster
        x, y = self._grid[0] // cx, self._grid[1] // cy
        place = cluster % x, cluster // x % y, cluster // (x * y)
        within = inside % cx, inside // cx % cy, inside // (cx * cy)
        a, b, c = (p * size + w for p, size, w in zip(place, self._cluster, within, strict=True))
        return a, b, c

    def _cluster_of(self, number: int) -> int:
        return number // math.prod(self._cluster)

    def lines(self) -> tuple[LineCounts, ...]:
        first_offset: dict[tuple, int] = {}
        for r, base in self._read("requests", _Request):
            lane = (r.lanes & -r.lanes).bit_length() - 1
            first_offset.setdefault((r.pc - base, r.array, r.size, r.kind), r.addresses[lane])
        entries = []
        for s, base in self._read("sites", _Site):
            offset = first_offset.get((s.pc - base, s.array, s.size, s.kind), 0)
            space = "shared" if s.array == _IN_SHARED else "global"
            counts = Counts(space, s.requests, s.accesses, s.units, s.ideal, s.bytes)
            line, array = self._line(s.pc, base), self._array(s.array, offset)
            entries.append(LineCounts(line, array, _KINDS[s.kind], s.size, counts, s.warps, s.lanes))
        return reports.merge_lines(entries)

    def requests(self) -> tuple[reports.Request, ...]:
        found = []
        for order, (r, base) in enumerate(self._read("requests", _Request)):
            offsets = np.array(r.addresses, np.int64)
            active = np.array([r.lanes >> lane & 1 for lane in range(32)], bool)
            space = "shared" if r.array == _IN_SHARED else "global"
            first = int(offsets[active][0])
            name = self._array(r.array, first)
            if space == "shared" and offsets[active].min() >= self._shared(first)[0]:
                offsets -= self._shared(first)[0]
            made = reports.Request(
                self._line(r.pc, base), name, _KINDS[r.kind], r.size, space, self._block_index(r.block), r.warp,
                np.where(active, offsets, -1),
            )  # fmt: skip
            found.append(((r.pc - base, r.array, r.size, r.kind), r.block, order, made))
        lowest: dict[Any, int] = {}
        for key, number, _, _ in found:
            lowest[key] = min(number, lowest.get(key, number))
        kept = [(key, order, made) for key, number, order, made in found if number == lowest[key]]
        return tuple(made for _, _, made in sorted(kept, key=lambda k: (k[2].line, k[0], k[1])))

    def findings(self) -> list[reports.Finding]:
        merged: dict[tuple, list[tuple[Any, int]]] = {}
        for f, base in self._read("findings", _Finding):
            merged.setdefault((self._line(f.pc, base), f.kind, f.array, f.access), []).append((f, base))
        ranked = []
        for (line, kind, _, _), group in merged.items():
            f, base = min(group, key=lambda entry: (-entry[0].rank, entry[0].block, entry[0].thread, entry[0].offset))
            ranked.append((self._finding(f, base, line, sum(g.count for g, _ in group), _FINDINGS[kind]), f.rank))
        # a race is seen from both sides: that between warps tells it, or the later line
        sides = {(f.kind, f.array, f.line, f.other_line): rank for f, rank in ranked}
        found = [
            f for f, rank in ranked
            if (rank, f.line) >= (sides.get((f.kind, f.array, f.other_line, f.line), -1), f.other_line)
        ]  # fmt: skip
        # an element that was read before somebody wrote it, without a barrier, is a race and no more
        raced = {(f.array, line) for f in found if f.kind == "race" for line in (f.line, f.other_line)}
        found = [f for f in found if f.kind != "uninitialised-read" or (f.array, f.line) not in raced]
        in_a_warp = {id(f): f.kind == "race" and not rank and len(f.blocks) == 1 for f, rank in ranked}
        return sorted(found, key=lambda f: (in_a_warp[id(f)], f.line, _FINDINGS.index(f.kind), f.array or ""))

    def _indexed(self, line: int, column: int) -> str | None:
        """The name of the array that is indexed at a place of the source: the last one that begins before it."""
        text = self._source[line - 1] if 0 < line <= len(self._source) else ""
        names = list(re.finditer(r"([A-Za-z_]\w*)\s*\[", text))
        before = [name[1] for name in names if name.start() < column]
        return before[-1] if before else names[0][1] if names else None

    def _bad_index(self, f: Any, line: int, count: int) -> reports.Finding:
        name = self._indexed(line, f.other_thread)
        thread, block = self._thread(f.thread), self._block_index(f.block)
        kind = re.sub(r"^'|'$", "", f.type.decode(errors="replace"))
        message = (
            f"thread {thread} of block {block} uses index {f.offset} of {name or 'an array'}, which has {f.length}"
            f" elements there ({kind})" + (f" (seen {count} times)" if count > 1 else "")
        )
        return reports.Finding("out-of-bounds", line, message, (thread,), (block,), name, int(f.offset), 0, count)

    def _finding(self, f: Any, base: int, line: int, count: int, kind: str) -> reports.Finding:
        if f.kind == _BAD_INDEX:
            return self._bad_index(f, line, count)
        thread, block = self._thread(f.thread), self._block_index(f.block)
        other_line = self._line(f.other_pc, base)
        array = None if f.array == _IN_NOTHING else self._array(f.array, f.offset)
        itemsize, index, low, high = 1, f.offset, 0, 0
        if f.array >= 0:
            itemsize = self._arrays[f.array][1].itemsize
        elif f.array == _IN_SHARED:
            itemsize = max(1, f.size)
            low, high, _ = self._shared(f.offset)
            index = f.offset - low
        index //= itemsize
        threads, blocks = [thread], [block]
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[_KINDS[f.access]]
        who = f"thread {thread} of block {block}"
        times = f" (seen {count} times)" if count > 1 else ""
        where = f"{array}[{index}]" if array else f"address {f.offset:#x}"
        if f.array == _IN_SHARED and f.owner != f.block:
            where += f" of block {self._block_index(f.owner)}"
        if f.kind == _BAD_COPY:
            message = f"{who} {verb} {f.offset} bytes of a local array, which has {f.length} from there on{times}"
        elif f.kind == _LOCAL_OVERRUN:
            message = f"{who} {verb} beyond its own local variables{times}"
        elif kind == "out-of-bounds" and not array and 0 <= f.offset < 4096:
            message = f"{who} {verb} through a null pointer{times}"
        elif kind == "out-of-bounds":
            limit = self._arrays[f.array][1].size if f.array >= 0 else (high - low) // itemsize or None
            has = f", but {array} has {limit} elements" if limit is not None else ""
            message = f"{who} {verb} {where}{has}{times}"
        elif kind == "misaligned":
            message = (
                f"{who} {verb} {f.size} bytes at {where}, whose address is not a multiple of {min(f.size, 16)}{times}"
            )
        elif kind == "uninitialised-read":
            nobody = "no thread of the block" if f.owner == f.block else "no thread of the cluster"
            message = f"{who} reads {where} of shared memory, which {nobody} has written{times}"
        elif kind == "absent-block":
            why = (
                "that block may not have started: no cluster_sync comes before"
                if f.kind == _NOT_STARTED
                else "that block may have returned: no cluster_sync comes after"
            )
            message = f"{who} {verb} {where}, and {why}{times}"
        elif kind == "divergent-barrier":
            threads.append(self._thread(f.other_thread))
            message = (
                f"{who} waits at this __syncthreads while {self._thread(f.other_thread)} waits at the one in line "
                f"{other_line}: all threads of a block must reach the same one"
            )
        else:
            if f.other_block != f.block:
                blocks.append(self._block_index(f.other_block))
                threads.append(self._thread(f.other_thread))
                other = f"thread {self._thread(f.other_thread)} of block {self._block_index(f.other_block)}"
                same = self._cluster_of(f.other_block) == self._cluster_of(f.block)
                between = "blocks run in any order, and nothing orders these two"
                if same and math.prod(self._cluster) > 1:
                    between = "no cluster_sync lies between"
            else:
                several = f.other_thread == _SEVERAL
                if not several:
                    threads.append(self._thread(f.other_thread))
                other = "several threads" if several else f"thread {self._thread(f.other_thread)}"
                same_warp = not several and f.other_thread // 32 == f.thread // 32
                between = "no __syncwarp lies between" if same_warp else "no __syncthreads lies between"
            if verb == "writes" and line == other_line and f.other_block == f.block:
                message = f"{who} writes {where}, and so does {other}, in the same line: nothing says which comes last"
                message = message.replace("so does several", "so do several") + times
            else:
                does = "use it, one of them" if other == "several threads" else "uses it"
                message = f"{who} {verb} {where}, {other} {does} in line {other_line}: {between}{times}"
        return reports.Finding(
            kind, line, message, tuple(threads), tuple(dict.fromkeys(blocks)), array,
            None if array is None else int(index), other_line, count,
        )  # fmt: skip

    def fault(self, fault: Any, message: str) -> reports.Finding:
        """A launch that was stopped altogether: a deadlock, a trap."""
        block = (fault.block.x, fault.block.y, fault.block.z)
        thread = (fault.thread.x, fault.thread.y, fault.thread.z)
        stuck = (module.DEADLOCK, module.GRID_DEADLOCK, module.CLUSTER_DEADLOCK)
        kind = "deadlock" if fault.kind in stuck else "stopped"
        base = _runtime().sim_trace_module(self._traces[0]) if self._traces else 0
        line = fault.line or (self._line(fault.pc, base) if fault.pc > base else 0)
        return reports.Finding(kind, line, message.removeprefix("deadlock "), (thread,), (block,))
