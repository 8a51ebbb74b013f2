"""Modules and kernels on the simulator: compilation and launches, with CuPy's interface."""

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

from .. import signature
from ..device import SHARED_DEFAULT, SHARED_MAX
from ..errors import CompileError, KernelError
from ..report import Uninitialised
from . import compiler, guard, watch
from .binding import Arguments, Fault, FaultKind, Launch, SimKernel, Uint3, runtime, worker_count
from .faults import describe
from .symbols import static_shared

_one_launch_at_a_time = threading.Lock()


def _new_lock_in_child() -> None:
    """Replace the lock in a forked child: another thread of the parent may have held it."""
    global _one_launch_at_a_time
    _one_launch_at_a_time = threading.Lock()


os.register_at_fork(after_in_child=_new_lock_in_child)


class _Variables:
    """The __device__ variables of one library: each module has values of its own, as on a GPU.

    Modules of the same source share a loaded library, which holds the values of the module that was launched last.
    """

    def __init__(self, inside: int) -> None:
        base, low, high = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
        runtime().sim_module_data(ctypes.c_void_p(inside), ctypes.byref(base), ctypes.byref(low), ctypes.byref(high))
        self.base, self._low, self._size = base.value, low.value, high.value - low.value
        self._initial = self._current()
        self._saved: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()  # module → values
        self._owner: Callable[[], Any] = lambda: None

    def _current(self) -> bytes:
        return ctypes.string_at(self._low, self._size) if self._size else b""

    def switch_to(self, owner: Any) -> None:
        """Load the values that the module `owner` had after its last launch; before its first, the initial ones."""
        before = self._owner()
        if before is owner or not self._size:
            return
        if before is not None:
            self._saved[before] = self._current()
        ctypes.memmove(self._low, self._saved.pop(owner, self._initial), self._size)
        self._owner = weakref.ref(owner)

    def forget(self, owner: Any) -> None:
        """Discard the values of the module `owner`, so that its next launch starts with the initial ones."""
        self._saved.pop(owner, None)
        if self._owner() is owner:
            self._owner = lambda: None


_variables: dict[int, _Variables] = {}  # by the handle of a loaded library


class SimulatedKernel:
    """A kernel of a SimulatedModule, with the interface of CuPy's RawKernel."""

    def __init__(
        self, module: "SimulatedModule", name: str, number: int, declared: Sequence[signature.Parameter]
    ) -> None:
        self.module = module  # keeps the library loaded
        self.name = name
        self.origin = module.origin  # to compile it again, for a trace
        self._max_dynamic_shared = SHARED_DEFAULT
        entry = getattr(module.library, f"sim_kernel_{number}")
        entry.restype = ctypes.POINTER(SimKernel)
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

    def recompiled(self, traced: bool = False) -> "SimulatedKernel":
        """The same kernel in a checked build (traced) or a plain one; itself if it is that already."""
        if traced == self.module.traced:
            return self
        return module_of(self.origin, traced).get_function(self.name)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The limit of dynamic shared memory per launch in bytes: at first 48 KiB, at most SHARED_MAX."""
        return self._max_dynamic_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        signature.integer("max_dynamic_shared_size_bytes", size)
        if not 0 <= size <= SHARED_MAX:
            raise ValueError(f"max_dynamic_shared_size_bytes must be from 0 to {SHARED_MAX}, got {size}")
        self._max_dynamic_shared = int(size)

    def __call__(self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Run the kernel; returns when it has ended.

        grid, block: one to three integers, blocks and threads. args: NumPy arrays (C- or F-contiguous) and scalars.
        shared_mem: bytes of dynamic shared memory. TypeError and ValueError name an argument that does not fit;
        KernelError describes the fault that stopped the kernel. The kernel's printf output appears after it has ended.
        """
        if guard.is_on():
            watch.run_guarded(self, grid, block, args, shared_mem)
            return
        self._run_prepared(*self._prepared(grid, block, args, shared_mem), shared_mem)

    def _prepared(
        self, grid: tuple, block: tuple, args: Sequence[Any], shared_mem: int
    ) -> tuple[tuple, tuple, Arguments]:
        """(grid, block, arguments) of a launch, checked."""
        limit = self.max_dynamic_shared_size_bytes
        blocks, size = signature.check_sizes(grid, block, shared_mem, limit, self.cluster)
        return blocks, size, Arguments(self.name, self.parameters, args)

    def _run_prepared(self, blocks: tuple, size: tuple, prepared: Arguments, shared_mem: int) -> None:
        fault = self.launch(blocks, size, prepared, shared_mem)
        if fault.kind != FaultKind.NO_FAULT:
            line = f"line {fault.line}: " if fault.line else ""
            raise KernelError(f"{self.name}: {line}{self.describe_fault(fault, prepared, shared_mem)}")
        self._check_fences(prepared.where)
        prepared.copy_back()

    def bound(
        self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0, programmatic: bool = False
    ) -> Callable[[], None]:
        """A function that makes this launch each time it is called; the arguments are checked by the first call.

        programmatic: no effect here, where a launch returns when it has ended; see GpuKernel.bound.
        """
        reusable: list[tuple[tuple, tuple, Arguments]] = []  # of the first launch, unless arrays were copied

        def launch() -> None:
            if guard.is_on():
                watch.run_guarded(self, grid, block, args, shared_mem)
                return
            prepared = reusable[0] if reusable else self._prepared(grid, block, args, shared_mem)
            if not reusable and prepared[2].reusable:
                reusable.append(prepared)
            self._run_prepared(*prepared, shared_mem)

        return launch

    def reset(self) -> None:
        """Reset the __device__ variables of the kernel's module to their initial values, as if it were loaded again.

        Otherwise they keep their values from launch to launch. A trace has separate values, which it keeps likewise.
        """
        with _one_launch_at_a_time:
            for variables in _variables.values():
                variables.forget(self.module)

    def workers(self) -> int:
        """Number of workers for a launch that is not cooperative: a multiple of the cluster size."""
        blocks = math.prod(self.cluster)
        return max(1, worker_count() // blocks) * blocks

    def launch(
        self, blocks: tuple, size: tuple, prepared: Arguments, shared_mem: int, trace: Any = None, workers: int = 0,
        owner: Any = None,
    ) -> Fault:  # fmt: skip
        """Run the kernel, print its printf output, and return its Fault (NO_FAULT if it ended normally).

        blocks, size: grid and block. trace: address of a TraceRequest. workers: 0: the default. owner: the module whose
        __device__ variables the launch uses; default: the kernel's. KernelError if the workers cannot be started.
        """
        launch = Launch(
            kernel=self._kernel, arguments=prepared.pointers, grid=Uint3(*blocks), block=Uint3(*size),
            cluster=Uint3(*self.cluster), dynamic_shared=shared_mem,
            fibers=self.module.threads_meet or trace is not None, cooperative=self.module.cooperative,
            workers=workers or self.workers(), trace=trace,
        )  # fmt: skip
        with _one_launch_at_a_time:
            self.module.variables.switch_to(owner or self.module)
            try:
                self._run(launch)
            except BaseException:
                prepared.repair_guards()
                raise
            lost = ctypes.c_int(0)
            printed = runtime().sim_printed(ctypes.byref(lost)).decode(errors="replace")
        if printed:
            sys.stdout.write(printed)
        if lost.value:
            print("[printf: the buffer of 1 MiB was full, the rest is lost]")
        if launch.fault.kind != FaultKind.NO_FAULT:
            prepared.repair_guards()
        return launch.fault

    def _run(self, launch: Launch) -> None:
        library = runtime()
        try:
            error = library.sim_start(ctypes.byref(launch))
            while not library.sim_wait(100):  # returns every 100 ms, so that Ctrl+C is handled
                pass
        except BaseException:
            library.sim_cancel()
            raise
        if error:
            needs = f"{launch.workers} workers cannot be started"
            if launch.cooperative:
                needs = "a cooperative launch needs a worker for every block at once, at most 2048"
            raise KernelError(f"{self.name}: {needs}; the grid is {launch.grid}: {os.strerror(error)}")

    def describe_fault(self, fault: Fault, prepared: Arguments, shared_mem: int) -> str:
        """The message for the fault that stopped a launch, see faults.describe."""
        return describe(fault, prepared, shared_mem, self.cluster, self.module.path)

    def _check_fences(self, where: list) -> None:
        for parameter, array, address, fence in where:
            broken = fence.broken()
            if broken is None:
                continue
            fence.repair_guards()
            first, last = ((b - address) // array.itemsize for b in broken)
            indices = f"index {first}" if first == last else f"indices {first} to {last}"
            raise KernelError(
                f"{self.name}: out of bounds: something wrote at {indices} of '{parameter.name}', "
                f"which has {array.size} elements ({array.dtype}, shape {array.shape})"
            )


class SimulatedModule:
    """The compiled kernels of one source, with the interface of CuPy's RawModule."""

    def __init__(
        self,
        code: str,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] = (),
        enable_cooperative_groups: bool = False,
        traced: bool = False,
    ) -> None:
        """Compile `code`. traced: a checked build, for cuda.trace. Other arguments and errors as of cuda.RawModule."""
        self.traced = traced
        self.origin = (code, tuple(options), tuple(name_expressions), bool(enable_cooperative_groups))
        macros = dict(o[2:].split("=", 1) for o in options if o.startswith("-D") and "=" in o)
        self._declared = signature.declarations(code, macros)
        self._entries = [name for name, d in self._declared.items() if not d.template and name not in name_expressions]
        self._entries += list(name_expressions)
        self._named = set(name_expressions)
        self.cooperative = bool(enable_cooperative_groups)
        runtime()  # loaded first: kernels resolve its functions by name
        clusters = [self._declared[base].cluster if (base := _base(e)) in self._declared else "" for e in self._entries]
        self.path = path = compiler.build_kernels(
            code, self._entries, options, required=self._named, traced=traced, clusters=clusters
        )
        content = path.read_bytes()
        if _static_shared_bytes(content) > SHARED_DEFAULT:
            _refuse_static_shared(path, code, list(self._declared))
        self.library = compiler.load(path)
        self.uninitialised: tuple[Uninitialised, ...] = compiler.uninitialised(path) if traced else ()
        handle = self.library._handle  # the same for each load of one library
        if handle not in _variables:
            _variables[handle] = _Variables(self._address_inside())
        self.variables = _variables[handle]
        # Threads wait for each other only in these functions of the runtime. If a library calls none of them, each
        # block runs as a plain loop without fibers.
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
                b"sim_mbarrier",
            )
        )

    def _address_inside(self) -> int:
        for number in range(len(self._entries)):
            if entry := getattr(self.library, f"sim_kernel_{number}", None):
                return ctypes.cast(entry, ctypes.c_void_p).value or 0
        return 0

    def cluster(self, number: int) -> tuple[int, int, int]:
        """Blocks of a cluster in x, y, z, for kernel `number` of the module; (1, 1, 1) without clusters."""
        entry = getattr(self.library, f"sim_kernel_cluster_{number}", None)
        if entry is None:
            return 1, 1, 1
        entry.restype = ctypes.POINTER(ctypes.c_uint)
        x, y, z = entry()[:3]
        return x, y, z

    def get_function(self, name: str) -> SimulatedKernel:
        """The kernel `name`: an extern "C" function of the source, or one of `name_expressions`; else ValueError."""
        base = _base(name)
        declared = self._declared.get(base)
        if name not in self._entries or (name not in self._named and declared and not declared.extern_c):
            raise ValueError(missing_kernel(name, self._declared))
        if not hasattr(self.library, f"sim_kernel_{self._entries.index(name)}"):
            raise ValueError(f"kernel '{name}' is not there: an #if leaves it out, or it stands in a namespace")
        return SimulatedKernel(self, name, self._entries.index(name), declared.parameters if declared else ())


@functools.lru_cache(maxsize=64)
def module_of(origin: tuple[str, tuple, tuple, bool], traced: bool) -> SimulatedModule:
    """The module of a kernel's origin (source, options, name expressions, cooperative), compiled once and cached."""
    return SimulatedModule(*origin, traced=traced)


def _static_shared_bytes(library: bytes) -> int:
    """Bytes of static shared memory of all kernels of a library, with padding: the size of its segment PT_TLS."""
    if library[:4] != b"\x7fELF":
        return 0
    (start,) = struct.unpack_from("<Q", library, 0x20)
    each, count = struct.unpack_from("<HH", library, 0x36)
    segments = (struct.unpack_from("<IIQQQQQ", library, start + i * each) for i in range(count))
    return next((segment[6] for segment in segments if segment[0] == 7), 0)


def _refuse_static_shared(path: Path, code: str, kernels: Sequence[str]) -> None:
    """Raise CompileError for a kernel that has more static shared memory than ptxas allows."""
    arrays = static_shared(path)
    # arrays outside of kernels may be used by any kernel; with several kernels it is unknown by which
    others = [array for function in arrays if function not in kernels for array in arrays[function]]
    for kernel in kernels:
        own = arrays.get(kernel, []) + (others if len(kernels) == 1 else [])
        total = sum(size for _, size in own)
        if total <= SHARED_DEFAULT:
            continue
        largest = max(own, key=lambda array: array[1])[0]
        name = re.compile(rf"\b{re.escape(largest)}\b")
        declared = (name.search(code, *place.span()) for place in re.finditer(r"__shared__[^;]*", code))
        found = next(filter(None, declared), None)
        line = f"line {code.count(chr(10), 0, found.end()) + 1}: " if found else ""
        raise CompileError(
            f"the kernel does not compile\n{line}kernel '{kernel}' uses {total} bytes of static shared memory"
            f" ({', '.join(f'{name}: {size}' for name, size in own)}), at most {SHARED_DEFAULT} (48 KiB) are"
            " allowed. More must be dynamic: extern __shared__, shared_mem=..., and"
            " kernel.max_dynamic_shared_size_bytes = ..."
        )


def _base(expression: str) -> str:
    """The name without template arguments: "transpose" for "transpose<float>"."""
    return expression.split("<")[0].strip()


def missing_kernel(name: str, declared: dict[str, signature.Declaration]) -> str:
    """The message for a kernel that is not found by its name. declared: the kernels of the source."""
    known = declared.get(_base(name))
    if known is None:
        return f"no kernel '{name}' in this source; it defines {', '.join(declared) or 'none'}"
    if known.template:
        return f"kernel '{name}' is a template: RawModule(code=..., name_expressions=['{name}']) instantiates it"
    return f"kernel '{name}' must be declared extern \"C\", or its C++ name stand in name_expressions"
