"""The runtime library and its C structures, mirrored in ctypes; the arguments of a launch.

When the library is loaded, the size of every structure, the offset and size of every field and the value of every
enumerator are compared with the table that it exports (runtime/abi.cpp): RuntimeError if any differs.
"""

import ctypes
import dataclasses
import enum
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import signature
from ..tensor_map import TensorMap
from . import compiler
from .memory import Fence, FencedCopies, fence_of

ARRAYS_MAX, WORKERS_MAX = 64, 256  # limits of a traced launch


class Uint3(ctypes.Structure):
    """Three unsigned integers: the index of a thread or block, or the size of a grid."""

    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class SimParameter(ctypes.Structure):
    """One parameter of a compiled kernel (include/simulator/layout.h)."""

    _fields_ = [
        ("type", ctypes.c_char_p), ("size", ctypes.c_uint), ("pointer", ctypes.c_bool),
        ("constant", ctypes.c_bool),
    ]  # fmt: skip


class SimKernel(ctypes.Structure):
    """What a library exports for each kernel (include/simulator/layout.h)."""

    _fields_ = [
        ("parameter_count", ctypes.c_int), ("parameters", ctypes.POINTER(SimParameter)),
        ("run_thread", ctypes.c_void_p), ("run_block", ctypes.c_void_p), ("shared_memory", ctypes.c_void_p),
    ]  # fmt: skip


class FaultKind(enum.IntEnum):
    """The kind of fault that stopped a launch; faults.py has the messages."""

    NO_FAULT = 0
    BAD_ADDRESS = enum.auto()
    BAD_ARITHMETIC = enum.auto()
    TRAP = enum.auto()
    DEADLOCK = enum.auto()
    STACK_OVERFLOW = enum.auto()
    CANCELLED = enum.auto()
    NOT_COOPERATIVE = enum.auto()
    NOT_IN_MASK = enum.auto()
    GRID_DEADLOCK = enum.auto()
    SHARED_OVERRUN = enum.auto()
    CLUSTER_DEADLOCK = enum.auto()
    NO_SUCH_RANK = enum.auto()
    NOT_SHARED = enum.auto()
    BOX_OVERWRITTEN = enum.auto()
    BOX_OPEN = enum.auto()
    BOX_NOT_OPEN = enum.auto()
    ASSERTION = enum.auto()
    ABORTED = enum.auto()
    EXITED = enum.auto()
    WILD_ADDRESS = enum.auto()
    ENDLESS = enum.auto()
    TRACE_FULL = enum.auto()
    MISALIGNED_ADDRESS = enum.auto()
    DIVIDED_BY_ZERO = enum.auto()
    QUOTIENT_OVERFLOW = enum.auto()
    NO_MBARRIER = enum.auto()
    MBARRIER_OVERWRITTEN = enum.auto()
    MBARRIER_FULL = enum.auto()
    BAD_BULK_COPY = enum.auto()
    COPY_UNDER_WAY = enum.auto()
    MBARRIER_NOT_READY = enum.auto()


class Fault(ctypes.Structure):
    """The fault that stopped a launch: its kind, thread, block and address."""

    _fields_ = [
        ("kind", ctypes.c_int), ("thread", Uint3), ("block", Uint3), ("address", ctypes.c_uint64),
        ("at_barrier", ctypes.c_int), ("at_collective", ctypes.c_int), ("finished", ctypes.c_int),
        ("at_mbarrier", ctypes.c_int), ("line", ctypes.c_int), ("pc", ctypes.c_uint64), ("text", ctypes.c_char * 256),
        ("shared_low", ctypes.c_uint64), ("shared_high", ctypes.c_uint64),
    ]  # fmt: skip


class Launch(ctypes.Structure):
    """A launch, and its fault when it has ended."""

    _fields_ = [
        ("kernel", ctypes.POINTER(SimKernel)), ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", Uint3), ("block", Uint3), ("cluster", Uint3), ("dynamic_shared", ctypes.c_uint64),
        ("fibers", ctypes.c_int), ("cooperative", ctypes.c_int), ("workers", ctypes.c_int),
        ("trace", ctypes.c_void_p), ("fault", Fault),
    ]  # fmt: skip


# ---- Traced launches


class AccessKind(enum.IntEnum):
    """The kind of a recorded event: an access, or a warp operation, which the runtime records among the accesses."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    WARP_OPERATION = 3


class FindingKind(enum.IntEnum):
    """The kinds of findings of a checked launch; recording.py maps them to the kinds of report.Finding."""

    RACE = 0
    OUT_OF_BOUNDS = enum.auto()
    UNINITIALISED_READ = enum.auto()
    DIVERGENT_BARRIER = enum.auto()
    DEADLOCKED = enum.auto()
    MISALIGNED = enum.auto()
    NOT_STARTED = enum.auto()
    RETURNED = enum.auto()
    BAD_INDEX = enum.auto()
    LOCAL_OVERRUN = enum.auto()
    BAD_COPY = enum.auto()
    MISSED_BARRIER = enum.auto()  # no mistake by itself: Report.missed
    NOT_GLOBAL = enum.auto()


class TracedArray(ctypes.Structure):
    """An array that a launch may access: addresses [low, high), bytes per element, index of its TracedMemory."""

    _fields_ = [
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("itemsize", ctypes.c_uint32), ("memory", ctypes.c_int32),
        ("constant", ctypes.c_int32),
    ]  # fmt: skip


class TracedShared(ctypes.Structure):
    """An array of static shared memory: offsets of its first byte and of its end."""

    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


class MergedCode(ctypes.Structure):
    """Code of one line of the source whose accesses to shared memory are merged: addresses, widths as bits."""

    _fields_ = [
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("line", ctypes.c_uint32), ("loads", ctypes.c_uint8),
        ("stores", ctypes.c_uint8),
    ]  # fmt: skip


class TracedMemory(ctypes.Structure):
    """A range of memory; overlapping arrays share one. grain: bytes per unit in which accesses are recorded."""

    _fields_ = [
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("grain", ctypes.c_uint32), ("writable", ctypes.c_int32),
    ]  # fmt: skip


class TraceRequest(ctypes.Structure):
    """What a traced launch watches, and its recordings, one per worker."""

    _fields_ = [
        ("array_count", ctypes.c_int), ("memory_count", ctypes.c_int), ("counting", ctypes.c_int),
        ("worker_count", ctypes.c_int), ("cluster_size", ctypes.c_int), ("alone", ctypes.c_int),
        ("arrays", TracedArray * ARRAYS_MAX), ("memories", TracedMemory * ARRAYS_MAX),
        ("wanted", ctypes.c_void_p), ("published", ctypes.c_void_p),
        ("guard_count", ctypes.c_int), ("guards", ctypes.c_void_p),
        ("shared_count", ctypes.c_int), ("shared_arrays", ctypes.POINTER(TracedShared)),
        ("merged_count", ctypes.c_int), ("merged_code", ctypes.POINTER(MergedCode)),
        ("steps_max", ctypes.c_int64), ("bytes_max", ctypes.c_uint64), ("workers", ctypes.c_void_p * WORKERS_MAX),
    ]  # fmt: skip


class Site(ctypes.Structure):
    """One instruction that accesses one array: the counts of all its requests."""

    _fields_ = [
        ("pc", ctypes.c_uint64), ("array", ctypes.c_int32), ("size", ctypes.c_uint8), ("kind", ctypes.c_uint8),
        ("accesses", ctypes.c_uint64), ("requests", ctypes.c_uint64), ("units", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("most", ctypes.c_uint64),
        ("warps", ctypes.c_uint32), ("lanes", ctypes.c_uint32),
    ]  # fmt: skip


class Request(ctypes.Structure):
    """One request of a warp: its active lanes, and their addresses as offsets in the array."""

    _fields_ = [
        ("pc", ctypes.c_uint64), ("array", ctypes.c_int32), ("size", ctypes.c_uint8), ("kind", ctypes.c_uint8),
        ("block", ctypes.c_uint32), ("warp", ctypes.c_uint32), ("lanes", ctypes.c_uint32),
        ("addresses", ctypes.c_uint64 * 32),
    ]  # fmt: skip


class Finding(ctypes.Structure):
    """A finding of a checked launch: the place, the threads, the number of occurrences."""

    _fields_ = [
        ("pc", ctypes.c_uint64), ("other_pc", ctypes.c_uint64), ("kind", ctypes.c_int32), ("array", ctypes.c_int32),
        ("access", ctypes.c_int32), ("size", ctypes.c_uint32), ("block", ctypes.c_uint32), ("thread", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32), ("other_thread", ctypes.c_uint32), ("owner", ctypes.c_uint32),
        ("offset", ctypes.c_int64), ("count", ctypes.c_uint64), ("rank", ctypes.c_int32), ("length", ctypes.c_int32),
        ("other_access", ctypes.c_int32), ("type", ctypes.c_char * 64),
    ]  # fmt: skip


# ---- The library

_STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "uint3": Uint3, **{one.__name__: one for one in (
        SimParameter, SimKernel, Fault, Launch, TracedArray, TracedShared, MergedCode, TracedMemory, TraceRequest, Site,
        Request, Finding,
    )},
}  # fmt: skip
_ENUMERATIONS: tuple[type[enum.IntEnum], ...] = (FaultKind, AccessKind, FindingKind)


class _AbiEntry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_uint64), ("size", ctypes.c_uint64)]


def _expected_abi() -> Iterator[tuple[str, tuple[int, int]]]:
    """(name, (offset, number of members or value; bytes or 0)) of each structure, field, enumeration and enumerator."""
    for name, structure in _STRUCTURES.items():
        yield name, (0, ctypes.sizeof(structure))
        for field in structure._fields_:
            found = getattr(structure, field[0])
            yield f"{name}.{field[0]}", (found.offset, found.size)
    for kinds in _ENUMERATIONS:
        yield kinds.__name__, (len(kinds), 0)
        for kind in kinds:
            yield f"{kinds.__name__}.{kind.name}", (kind.value, 0)


def check_abi(library: ctypes.CDLL) -> None:
    """Raise RuntimeError, naming the differences, if the runtime's structures differ from those of this file."""
    library.sim_abi.restype = ctypes.POINTER(_AbiEntry)
    count = ctypes.c_int()
    table = library.sim_abi(ctypes.byref(count))
    there = {e.name.decode(): (e.offset, e.size) for e in (table[i] for i in range(count.value))}
    here = dict(_expected_abi())
    if differ := [name for name in {**here, **there} if here.get(name) != there.get(name)]:
        described = "; ".join(f"{name}: {here.get(name)} here, {there.get(name)} in the runtime" for name in differ[:4])
        raise RuntimeError(
            "the simulator's runtime library has other C structures than common/cuda/simulator/binding.py"
            f" ((offset or number, bytes) of each): {described}"
        )


@functools.cache
def runtime() -> ctypes.CDLL:
    """The runtime library, built if it is not in the cache. Errors as of compiler.build_runtime and `check_abi`."""
    library = compiler.load(compiler.build_runtime(), ctypes.RTLD_GLOBAL)
    check_abi(library)
    library.sim_start.argtypes = [ctypes.POINTER(Launch)]
    library.sim_printed.restype = ctypes.c_char_p
    library.sim_printed.argtypes = [ctypes.POINTER(ctypes.c_int)]
    for name in ("sites", "requests", "findings"):
        function = getattr(library, f"sim_trace_{name}")
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]
    for function in (library.sim_trace_module, library.sim_trace_static_bytes, library.sim_trace_in_flight):
        function.restype = ctypes.c_uint64
        function.argtypes = [ctypes.c_void_p]
    library.sim_trace_between_blocks.argtypes = [ctypes.POINTER(TraceRequest)]
    library.sim_trace_free.argtypes = [ctypes.POINTER(TraceRequest)]
    return library


def worker_count() -> int:
    """Number of blocks that run at a time: one per CPU core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _described(parameter: signature.Parameter) -> signature.Parameter:
    """The parameter of a tensor map as one that points to the matrix, which the kernel only reads."""
    return dataclasses.replace(parameter, pointer=True, constant=True)


class Arguments:
    """The arguments of a launch for the runtime, with fenced copies in place of plain NumPy arrays.

    where      (parameter, array, address for the kernel, its Fence) for each array
    nulls      names of the pointer parameters that are None
    pointers   the argument pointers of the launch
    reusable   whether they can be used for further launches: no array was copied

    TypeError as of signature.check.
    """

    def __init__(self, kernel: str, parameters: Sequence[signature.Parameter], args: Sequence[Any]) -> None:
        values = signature.check(kernel, parameters, args, np.ndarray)
        pairs = list(zip(parameters, values, strict=True))
        arrays = [(p, v) for p, v in pairs if p.pointer and v is not None]
        arrays += [(_described(p), v.matrix) for p, v in pairs if isinstance(v, TensorMap)]
        self.nulls = [p.name for p, v in pairs if p.pointer and v is None]
        fences = {id(v): fence_of(v) for _, v in arrays}
        self._copies = FencedCopies([v for _, v in arrays if fences[id(v)] is None])
        self.reusable = all(fences.values())
        self._written = [v for p, v in arrays if fences[id(v)] is None and not p.constant]
        self.where: list[tuple[signature.Parameter, np.ndarray, int, Fence]] = []
        self._holders: list[Any] = []  # the memory that each argument pointer points to
        for parameter, value in pairs:
            if isinstance(value, TensorMap):
                matrix, fence = value.matrix, fences[id(value.matrix)]
                address, fence = (matrix.ctypes.data, fence) if fence else self._copies.address(matrix)
                self.where.append((_described(parameter), matrix, address, fence))
                self._holders.append(np.array(value.packed(address, simulated=True)))
            elif not parameter.pointer:
                self._holders.append(np.array(value))
            elif value is None:
                self._holders.append(np.zeros(1, np.uint64))
            else:
                fence = fences[id(value)]
                address, fence = (value.ctypes.data, fence) if fence else self._copies.address(value)
                self.where.append((parameter, value, address, fence))
                self._holders.append(np.array([address], np.uint64))
        self.pointers = (ctypes.c_void_p * max(len(pairs), 1))(*[h.ctypes.data for h in self._holders])

    def repair_guards(self) -> None:
        """Restore the canaries around the arrays, after a launch that was stopped."""
        for _, _, _, fence in self.where:
            fence.repair_guards()

    def copy_back(self) -> None:
        """Copy the results into the plain arrays that were passed."""
        self._copies.copy_back(self._written)
