"""Kernels on the simulator: from source to a call."""

import ctypes
import functools
import math
import os
import re
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import signature
from ..errors import CompileError, KernelError
from ..report import Uninitialised
from . import compiler, guard
from .memory import Fence, FencedCopies, fence_of


class _Uint3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class _Parameter(ctypes.Structure):  # SimParameter in include/simulator/entry.h
    _fields_ = [
        ("type", ctypes.c_char_p), ("size", ctypes.c_uint), ("pointer", ctypes.c_bool),
        ("constant", ctypes.c_bool),
    ]  # fmt: skip


class _Kernel(ctypes.Structure):  # SimKernel in include/simulator/entry.h
    _fields_ = [
        ("parameter_count", ctypes.c_int), ("parameters", ctypes.POINTER(_Parameter)),
        ("run_thread", ctypes.c_void_p), ("run_block", ctypes.c_void_p), ("shared_memory", ctypes.c_void_p),
    ]  # fmt: skip


class _Fault(ctypes.Structure):  # Fault in runtime/launch.cpp
    _fields_ = [
        ("kind", ctypes.c_int), ("thread", _Uint3), ("block", _Uint3), ("address", ctypes.c_uint64),
        ("at_barrier", ctypes.c_int), ("at_collective", ctypes.c_int), ("finished", ctypes.c_int),
        ("line", ctypes.c_int), ("pc", ctypes.c_uint64), ("text", ctypes.c_char * 256),
    ]  # fmt: skip


class _Launch(ctypes.Structure):  # Launch in runtime/launch.cpp
    _fields_ = [
        ("kernel", ctypes.POINTER(_Kernel)), ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", _Uint3), ("block", _Uint3), ("cluster", _Uint3), ("dynamic_shared", ctypes.c_uint64),
        ("fibers", ctypes.c_int), ("cooperative", ctypes.c_int), ("workers", ctypes.c_int),
        ("trace", ctypes.c_void_p), ("fault", _Fault),
    ]  # fmt: skip


# FaultKind in runtime/block.h
(NO_FAULT, BAD_ADDRESS, BAD_ARITHMETIC, TRAP, DEADLOCK, STACK_OVERFLOW, CANCELLED, NOT_COOPERATIVE, NOT_IN_MASK,
 GRID_DEADLOCK, SHARED_OVERRUN, CLUSTER_DEADLOCK, NO_SUCH_RANK, NOT_SHARED, BOX_OVERWRITTEN, BOX_OPEN,
 BOX_NOT_OPEN, ASSERTION, ABORTED, EXITED, WILD_ADDRESS, ENDLESS, TRACE_FULL) = range(23)  # fmt: skip

_DYNAMIC_SHARED_MAX = (
    227 * 1024
)  # bytes for a block, as on the largest cards (DYNAMIC_SHARED_MAX in runtime/launch.cpp)
_STATIC_SHARED_MAX = 48 * 1024  # bytes for a kernel, as ptxas has it
_one_launch_at_a_time = threading.Lock()


@functools.cache
def runtime() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compiler.build_runtime()), mode=ctypes.RTLD_GLOBAL)
    library.sim_start.argtypes = [ctypes.POINTER(_Launch)]
    library.sim_printed.restype = ctypes.c_char_p
    library.sim_printed.argtypes = [ctypes.POINTER(ctypes.c_int)]
    return library


def worker_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forget_launches() -> None:
    """A forked child has none of its parent's launches, even if one went on in another thread."""
    global _one_launch_at_a_time
    _one_launch_at_a_time = threading.Lock()


os.register_at_fork(after_in_child=_forget_launches)


class _Variables:
    """The __device__ variables of one library: each module that is made of it has values of its own, as on a GPU.

    Modules of the same source share the library; the values of the one that was launched last stand in it.
    """

    def __init__(self, inside: int) -> None:
        base, low, high = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
        runtime().sim_module_data(ctypes.c_void_p(inside), ctypes.byref(base), ctypes.byref(low), ctypes.byref(high))
        self.base, self._low, self._size = base.value, low.value, high.value - low.value
        self._first = self._now()
        self._kept: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
        self._owner: Callable[[], Any] = lambda: None

    def _now(self) -> bytes:
        return ctypes.string_at(self._low, self._size) if self._size else b""

    def give_to(self, owner: Any) -> None:
        """From here on they hold what they held when `owner` was last launched; at first what the source says."""
        before = self._owner()
        if before is owner or not self._size:
            return
        if before is not None:
            self._kept[before] = self._now()
        ctypes.memmove(self._low, self._kept.pop(owner, self._first), self._size)
        self._owner = weakref.ref(owner)

    def forget(self, owner: Any) -> None:
        self._kept.pop(owner, None)
        if self._owner() is owner:
            self._owner = lambda: None


_variables: dict[Path, _Variables] = {}


class Arguments:
    """The arguments of a launch as the runtime takes them, plain NumPy arrays replaced by fenced copies.

    where: of each array its parameter, the array, the address that the kernel gets, and the fence around it.
    """

    def __init__(self, kernel: "SimulatedKernel", args: Sequence[Any]) -> None:
        values = signature.check(kernel.name, kernel.parameters, args, np.ndarray)
        pairs = list(zip(kernel.parameters, values, strict=True))
        arrays = [(p, v) for p, v in pairs if p.pointer and v is not None]
        self.nulls = [p.name for p, v in pairs if p.pointer and v is None]
        fences = {id(v): fence_of(v) for _, v in arrays}
        self._copies = FencedCopies([v for _, v in arrays if fences[id(v)] is None])
        self._written = [v for p, v in arrays if fences[id(v)] is None and not p.constant]
        self.where: list[tuple[signature.Parameter, np.ndarray, int, Fence]] = []
        self._holders: list[Any] = []  # what each argument pointer points to
        for parameter, value in pairs:
            if not parameter.pointer:
                self._holders.append(np.array(value))
            elif value is None:
                self._holders.append(np.zeros(1, np.uint64))
            else:
                fence = fences[id(value)]
                address, fence = (value.ctypes.data, fence) if fence else self._copies.address(value)
                self.where.append((parameter, value, address, fence))
                self._holders.append(np.array([address], np.uint64))
        self.pointers = (ctypes.c_void_p * max(len(pairs), 1))(*[h.ctypes.data for h in self._holders])

    def mend(self) -> None:
        for _, _, _, fence in self.where:
            fence.mend()

    def give_back(self) -> None:
        self._copies.give_back(self._written)


class SimulatedKernel:
    """One kernel of a SimulatedModule; called as CuPy's RawKernel is."""

    def __init__(
        self, module: "SimulatedModule", name: str, number: int, declared: Sequence[signature.Parameter]
    ) -> None:
        self._module = module  # keeps the library loaded
        self.name = name
        self.origin = module.origin  # all that it takes to compile it again, for a trace
        self._max_dynamic_shared = 48 * 1024
        entry = getattr(module.library, f"sim_kernel_{number}")
        entry.restype = ctypes.POINTER(_Kernel)
        self._kernel = entry()
        kernel = self._kernel.contents
        self.parameters = [
            signature.Parameter(
                declared[i].name if i < len(declared) else f"#{i}",
                p.type.decode() if p.type else None, p.pointer, p.constant, p.size,
            )
            for i, p in enumerate(kernel.parameters[j] for j in range(kernel.parameter_count))
        ]  # fmt: skip
        self.cluster = signature.check_cluster(name, module.cluster(number))

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """A launch may ask for more dynamic shared memory than 48 KiB only after this was raised."""
        return self._max_dynamic_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        if not 0 <= size <= _DYNAMIC_SHARED_MAX:
            raise ValueError(f"max_dynamic_shared_size_bytes must be from 0 to {_DYNAMIC_SHARED_MAX}, got {size}")
        self._max_dynamic_shared = int(size)

    def __call__(self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Runs the kernel to its end.

        grid, block: one to three integers, blocks and threads. args: NumPy arrays (C- or F-contiguous) and
        scalars. shared_mem: bytes of dynamic shared memory. TypeError and ValueError name an argument that
        does not fit; KernelError says what stopped the kernel. What the kernel prints is printed when it is
        over.
        """
        if guard.is_on():
            from .tracing import run_guarded

            run_guarded(self, grid, block, args, shared_mem)
            return
        limit = self.max_dynamic_shared_size_bytes
        blocks, size = signature.check_sizes(grid, block, shared_mem, limit, self.cluster)
        prepared = Arguments(self, args)
        fault = self.launch(blocks, size, prepared, shared_mem)
        if fault.kind != NO_FAULT:
            raise KernelError(self.explain(fault, prepared, shared_mem))
        self._check_fences(prepared.where)
        prepared.give_back()

    def bound(
        self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0, programmatic: bool = False
    ) -> Callable[[], None]:
        """A launch to be made as often as one likes, as `__call__` makes it; here each one is checked.

        programmatic: see GpuKernel.bound; here every launch begins when the one before it has ended.
        """
        return functools.partial(self, grid, block, args, shared_mem=shared_mem)

    def reset(self) -> None:
        """Gives the __device__ variables of the kernel's module the source's values, as if it were loaded anew.

        Without it they keep what the last launch left in them. A trace has values of its own and keeps them likewise.
        """
        with _one_launch_at_a_time:
            for variables in _variables.values():
                variables.forget(self._module)

    def workers(self) -> int:
        """How many workers run its blocks, if the launch is not cooperative: a cluster's blocks need one each."""
        blocks = math.prod(self.cluster)
        return max(1, worker_count() // blocks) * blocks

    def launch(
        self, blocks: tuple, size: tuple, prepared: "Arguments", shared_mem: int, trace: Any = None, workers: int = 0,
        owner: Any = None,
    ) -> _Fault:  # fmt: skip
        """Runs the kernel, prints what it printed, and returns what stopped it.

        `trace` is for tracing.py, as is `owner`: the module whose __device__ variables the launch has, if not its own.
        """
        launch = _Launch(
            kernel=self._kernel, arguments=prepared.pointers, grid=_Uint3(*blocks), block=_Uint3(*size),
            cluster=_Uint3(*self.cluster), dynamic_shared=shared_mem,
            fibers=self._module.threads_meet or trace is not None, cooperative=self._module.cooperative,
            workers=workers or self.workers(), trace=trace,
        )  # fmt: skip
        with _one_launch_at_a_time:
            self._module.variables.give_to(owner or self._module)
            try:
                self._run(launch)
            except BaseException:
                prepared.mend()
                raise
            lost = ctypes.c_int(0)
            printed = runtime().sim_printed(ctypes.byref(lost)).decode(errors="replace")
        if printed:
            sys.stdout.write(printed)
        if lost.value:
            print("[printf: the buffer of 1 MiB was full, the rest is lost]")
        if launch.fault.kind != NO_FAULT:
            prepared.mend()
        return launch.fault

    def _run(self, launch: _Launch) -> None:
        library = runtime()
        try:
            error = library.sim_start(ctypes.byref(launch))
            while not library.sim_wait(100):  # returns to Python now and then, so that Ctrl-C is heard
                pass
        except BaseException:
            library.sim_cancel()
            raise
        if error:
            needs = f"{launch.workers} workers cannot be started"
            if launch.cooperative:
                needs = "a cooperative launch needs a worker for every block at once, at most 2048"
            raise KernelError(f"{self.name}: {needs}; the grid is {launch.grid}: {os.strerror(error)}")

    def explain(self, fault: _Fault, prepared: "Arguments", shared_mem: int) -> str:
        """What stopped a launch, in words that begin with the kernel's name."""
        line = f"line {fault.line}: " if fault.line else ""
        return f"{self.name}: {line}{self.what_stopped(fault, prepared, shared_mem)}"

    def what_stopped(self, fault: _Fault, prepared: "Arguments", shared_mem: int) -> str:
        """What stopped a launch, in words."""
        thread = f"thread {fault.thread} of block {fault.block}"
        if fault.kind == BAD_ADDRESS:
            return f"{thread} {_touched(fault.address, prepared.where, prepared.nulls)}"
        if fault.kind == SHARED_OVERRUN:
            who = f"a thread of block {fault.block}" if fault.thread.x == 2**32 - 1 else thread
            return (
                f"{who} went out of bounds: byte {fault.address} of dynamic shared memory, "
                f"of which the launch asked for {shared_mem} (shared_mem={shared_mem})"
            )
        if fault.kind == DEADLOCK:
            return (
                f"deadlock in block {fault.block}: {fault.at_barrier} threads wait at __syncthreads,"
                f" {fault.at_collective} at a warp operation whose mask names lanes that never arrive,"
                f" {fault.finished} have returned; every thread must reach the same barrier"
            )
        if fault.kind == NO_SUCH_RANK:
            return (
                f"{thread} asked for the shared memory of block {fault.address} of its cluster,"
                f" which has {math.prod(self.cluster)} (__cluster_dims__{self.cluster})"
            )
        if fault.kind == BOX_OVERWRITTEN:
            return (
                f"block {fault.block} wrote something else into the memory of a mailbox that it had not"
                " closed (box.close()): a GPU may put the box back there later"
            )
        if fault.kind == ASSERTION:
            return f"assertion failed: {fault.text.decode(errors='replace')}, {thread}"
        if fault.kind == STACK_OVERFLOW:
            return f"stack overflow: {thread} needs more than {fault.address:,} bytes for local variables and calls"
        if fault.kind == ENDLESS:
            return (
                f"{thread} does more than {fault.address:,} steps (memory accesses and branches) between two barriers:"
                " does the loop end?"
            )
        if fault.kind == TRACE_FULL:
            return (
                f"the memory accesses and branches between two barriers fill more than {fault.address >> 20:,} MiB at"
                f" {thread}: does every loop end? Else trace a smaller problem"
            )
        return (
            f"{thread} "
            + {
                BAD_ARITHMETIC: "divided an integer by zero, or the least one by -1"
                " (a GPU goes on with an unspecified number)",
                TRAP: "executed __trap()",
                ABORTED: "called abort()",
                EXITED: "called exit(), which no GPU has",
                WILD_ADDRESS: "used an address that no memory has, far from every array, or a vector access"
                " (float4, ...) at an address that is not a multiple of its size",
                NOT_COOPERATIVE: "met grid.sync() or grid_barrier(), but the launch is not cooperative:"
                " RawKernel(..., enable_cooperative_groups=True)",
                NOT_IN_MASK: "took part in a warp operation whose mask leaves it out",
                GRID_DEADLOCK: "left other blocks waiting at grid.sync() or grid_barrier(): not every block reaches it",
                CLUSTER_DEADLOCK: "came last to a barrier that is never complete: every block waits, some for"
                " their cluster (cluster_sync), some for the grid (grid.sync, grid_barrier)",
                BOX_OPEN: "opened a mailbox where one is open already: box.close() first",
                BOX_NOT_OPEN: "closed a mailbox that is not open",
                NOT_SHARED: "gave cluster_map a pointer that does not point into its block's shared memory",
            }[fault.kind]
        )

    def _check_fences(self, where: list) -> None:
        for parameter, array, address, fence in where:
            broken = fence.broken()
            if broken is None:
                continue
            fence.mend()
            first, last = ((b - address) // array.itemsize for b in broken)
            indices = f"index {first}" if first == last else f"indices {first} to {last}"
            raise KernelError(
                f"{self.name}: out of bounds: something wrote at {indices} of '{parameter.name}', "
                f"which has {array.size} elements ({array.dtype}, shape {array.shape})"
            )


def _touched(address: int, where: list, nulls: list[str]) -> str:
    """A bad address in words: the array that is nearest, and the index in it."""
    whose = f" ({' and '.join(repr(n) for n in nulls)} is None)" if nulls else ""
    if address == 0:
        return f"used a null pointer{whose}"
    if address < 2**32:
        return f"used a null pointer{whose}, at address {address:#x}"
    if not where:
        return f"used a bad address ({address:#x})"

    def distance(entry: tuple) -> int:
        _, array, start, _ = entry
        return start - address if address < start else max(0, address - (start + array.nbytes) + 1)

    parameter, array, start, _ = min(where, key=distance)
    if distance((parameter, array, start, None)) > 1 << 40:
        return f"used a bad address ({address:#x}), far from every array"
    return (
        f"went out of bounds: index {(address - start) // max(array.itemsize, 1)} of '{parameter.name}', "
        f"which has {array.size} elements ({array.dtype}, shape {array.shape})"
    )


class SimulatedModule:
    """All kernels of one source, compiled; made as CuPy's RawModule is."""

    def __init__(
        self,
        code: str,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] = (),
        enable_cooperative_groups: bool = False,
        traced: bool = False,
    ) -> None:
        """Compiles `code`. traced: a checked build, which cuda.trace runs as it is."""
        self.traced = traced
        self.origin = (code, tuple(options), tuple(name_expressions), bool(enable_cooperative_groups))
        macros = dict(o[2:].split("=", 1) for o in options if o.startswith("-D") and "=" in o)
        self._declared = signature.declarations(code, macros)
        self._entries = [name for name, d in self._declared.items() if not d.template and name not in name_expressions]
        self._entries += list(name_expressions)
        self._named = set(name_expressions)
        self.cooperative = bool(enable_cooperative_groups)
        runtime()  # loaded first: kernels find its functions by name
        clusters = [self._declared[base].cluster if (base := _base(e)) in self._declared else "" for e in self._entries]
        self.path = path = compiler.build_kernels(
            code, self._entries, options, required=self._named, traced=traced, clusters=clusters
        )
        content = path.read_bytes()
        if _static_shared_bytes(content) > _STATIC_SHARED_MAX:
            _refuse_static_shared(path, code, list(self._declared))
        self.library = ctypes.CDLL(str(path))
        self.uninitialised: tuple[Uninitialised, ...] = compiler.uninitialised(path) if traced else ()
        if path not in _variables:
            _variables[path] = _Variables(self._address_inside())
        self.variables = _variables[path]
        # Threads meet only in these functions of the runtime. A library that calls none of them can run each
        # block as a plain loop.
        self.threads_meet = any(
            name in content
            for name in (
                b"sim_barrier",
                b"sim_collective",
                b"sim_grid_barrier",
                b"sim_cluster",
                b"sim_active_lanes",
                b"sim_pause",
                b"sim_async",
            )
        )

    def _address_inside(self) -> int:
        for number in range(len(self._entries)):
            if entry := getattr(self.library, f"sim_kernel_{number}", None):
                return ctypes.cast(entry, ctypes.c_void_p).value or 0
        return 0

    def cluster(self, number: int) -> tuple[int, int, int]:
        """Blocks of a cluster of kernel `number`, in each direction."""
        entry = getattr(self.library, f"sim_kernel_cluster_{number}", None)
        if entry is None:
            return 1, 1, 1
        entry.restype = ctypes.POINTER(ctypes.c_uint)
        x, y, z = entry()[:3]
        return x, y, z

    def get_function(self, name: str) -> SimulatedKernel:
        """The kernel `name`: an extern "C" function of the source, or one of `name_expressions`."""
        base = _base(name)
        declared = self._declared.get(base)
        if name not in self._entries or (name not in self._named and declared and not declared.extern_c):
            raise ValueError(missing_kernel(name, self._declared))
        if not hasattr(self.library, f"sim_kernel_{self._entries.index(name)}"):
            raise ValueError(f"kernel '{name}' is not there: an #if leaves it out, or it stands in a namespace")
        return SimulatedKernel(self, name, self._entries.index(name), declared.parameters if declared else ())


def _static_shared_bytes(library: bytes) -> int:
    """Bytes of static shared memory of all kernels of a library, and what lies between: its segment PT_TLS."""
    if library[:4] != b"\x7fELF":
        return 0
    (start,) = struct.unpack_from("<Q", library, 0x20)
    each, count = struct.unpack_from("<HH", library, 0x36)
    segments = (struct.unpack_from("<IIQQQQQ", library, start + i * each) for i in range(count))
    return next((segment[6] for segment in segments if segment[0] == 7), 0)


def _refuse_static_shared(path: Path, code: str, kernels: Sequence[str]) -> None:
    """CompileError for a kernel with more static shared memory than ptxas lets it have."""
    from .symbols import static_shared

    arrays = static_shared(path)
    # what stands in no kernel may be used by each; with several of them, who uses it is not known
    others = [array for function in arrays if function not in kernels for array in arrays[function]]
    for kernel in kernels:
        own = arrays.get(kernel, []) + (others if len(kernels) == 1 else [])
        total = sum(size for _, size in own)
        if total <= _STATIC_SHARED_MAX:
            continue
        largest = max(own, key=lambda array: array[1])[0]
        found = re.search(rf"__shared__[^;]*\b{re.escape(largest)}\b", code)
        line = f"line {code.count(chr(10), 0, found.end()) + 1}: " if found else ""
        raise CompileError(
            f"the kernel does not compile\n{line}kernel '{kernel}' uses {total} bytes of static shared memory"
            f" ({', '.join(f'{name}: {size}' for name, size in own)}), at most {_STATIC_SHARED_MAX} (48 KiB) are"
            " allowed. More must be dynamic: extern __shared__, shared_mem=..., and"
            " kernel.max_dynamic_shared_size_bytes = ..."
        )


def _base(expression: str) -> str:
    """The name in "transpose<float>"."""
    return expression.split("<")[0].strip()


def missing_kernel(name: str, declared: dict[str, signature.Declaration]) -> str:
    """Why a kernel cannot be found by its name, in words."""
    known = declared.get(_base(name))
    if known is None:
        return f"no kernel '{name}' in this source; it defines {', '.join(declared) or 'none'}"
    if known.template:
        return f"kernel '{name}' is a template: RawModule(code=..., name_expressions=['{name}']) instantiates it"
    return f"kernel '{name}' must be declared extern \"C\", or its C++ name stand in name_expressions"
