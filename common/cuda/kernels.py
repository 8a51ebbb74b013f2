"""RawKernel and RawModule: CuPy's on a GPU, else the simulator's; both with a check of the arguments."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import cubin, signature
from .device import backend, compute_capability
from .errors import CompileError
from .simulator.compiler import readable_errors
from .simulator.module import SimulatedKernel, SimulatedModule, missing_kernel, module_of
from .tensor_map import TensorMap


class GpuKernel:
    """CuPy's kernel with a check of its arguments. Other attributes are CuPy's (num_regs, attributes, ...)."""

    def __init__(
        self,
        module: "GpuModule",
        kernel: Any,
        name: str,
        parameters: Sequence[signature.Parameter],
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "_kernel", kernel)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "origin", module.origin)  # to compile it again, for a trace
        object.__setattr__(self, "parameters", list(parameters))
        object.__setattr__(self, "_cluster", cluster)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._kernel, attribute)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._kernel, attribute, value)

    def recompiled(self, traced: bool = False) -> "GpuKernel | SimulatedKernel":
        """This kernel; traced: its checked build for the simulator."""
        return module_of(self.origin, traced).get_function(self.name) if traced else self

    def __call__(self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Launch the kernel on CuPy's current stream.

        grid, block: one to three integers, blocks and threads. args: CuPy arrays and scalars, see signature.check.
        shared_mem: bytes of dynamic shared memory. TypeError and ValueError name an argument that does not fit.
        """
        self.bound(grid, block, args, shared_mem=shared_mem)()

    def bound(
        self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0, programmatic: bool = False
    ) -> Callable[[], None]:
        """A function that makes this launch each time it is called; the arguments are checked once, now.

        programmatic: programmatic dependent launch: the kernel may start before the previous kernel on the stream has
        ended, and must wait for its results with wait_for_inputs() of common/kernels/include/grid.h. An ordinary launch
        before sm_90. Errors as of `__call__`; RuntimeError if the package cuda-bindings is missing, ValueError for a
        cooperative kernel.
        """
        import cupy
        import numpy as np

        limit = self._kernel.max_dynamic_shared_size_bytes
        blocks, threads = signature.check_sizes(grid, block, shared_mem, limit, self._cluster)
        values = signature.check(self.name, self.parameters, args, cupy.ndarray)
        values = [np.uint64(0) if v is None else _passed(v) for v in values]
        if programmatic and self.origin[3]:
            raise ValueError(f"{self.name}: programmatic=True is not for kernels with enable_cooperative_groups=True")
        if programmatic and compute_capability() >= 90:
            return _programmatic_launch(self._kernel, blocks, threads, values, shared_mem)
        launch = functools.partial(self._kernel, blocks, threads, tuple(values), shared_mem=shared_mem)
        launch.arguments = args  # type: ignore[attr-defined]  # keeps the matrices of tensor maps
        return launch


def _programmatic_launch(
    kernel: Any, blocks: tuple, threads: tuple, values: Sequence[Any], shared_mem: int
) -> Callable[[], None]:
    """A launch by cuLaunchKernelEx, which CuPy does not offer, on the stream that is current at each call."""
    import cupy

    try:
        from cuda.bindings import driver
    except ImportError:
        raise RuntimeError("programmatic launches need the package cuda-bindings: pip install cuda-bindings") from None

    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks
    config.blockDimX, config.blockDimY, config.blockDimZ = threads
    config.sharedMemBytes = shared_mem
    config.attrs = [attribute]
    config.numAttrs = 1
    holders = [_argument(value) for value in values]  # what each argument pointer points to
    pointers = (ctypes.c_void_p * max(len(holders), 1))(*[ctypes.addressof(holder) for holder in holders])
    function = driver.CUfunction(kernel.kernel.ptr)
    where = ctypes.addressof(pointers)

    def launch(keepalive: Any = (values, holders, pointers)) -> None:
        config.hStream = driver.CUstream(cupy.cuda.get_current_stream().ptr)
        (status,) = driver.cuLaunchKernelEx(config, function, where, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise cupy.cuda.driver.CUDADriverError(int(status))

    return launch


def _passed(value: Any) -> Any:
    """A tensor map as the 128 bytes that the kernel gets; other arguments as they are."""
    return value.packed(value.matrix.data.ptr, simulated=False) if isinstance(value, TensorMap) else value


def _argument(value: Any) -> Any:
    """A ctypes object with an argument's bytes: the address of an array, the value of a scalar."""
    import numpy as np

    if hasattr(value, "__cuda_array_interface__"):
        return ctypes.c_uint64(value.data.ptr)
    return ctypes.create_string_buffer(np.asarray(value).tobytes(), np.asarray(value).nbytes)


class GpuModule:
    """CuPy's RawModule, compiled at construction. CompileError quotes the lines of the source."""

    def __init__(
        self,
        code: str,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] = (),
        enable_cooperative_groups: bool = False,
    ) -> None:
        import cupy

        self.origin = (code, tuple(options), tuple(name_expressions), bool(enable_cooperative_groups))
        macros = dict(o[2:].split("=", 1) for o in options if o.startswith("-D") and "=" in o)
        self._declared = signature.declarations(code, macros)
        self._clusters = {
            name: signature.check_cluster(name, signature.cluster_from_text(d.cluster, code, macros))
            for name, d in self._declared.items()
        }
        self._named = set(name_expressions)
        options = tuple(options)
        if name_expressions and not any(o.startswith(("-std", "--std")) for o in options):
            options += ("-std=c++17",)
        try:
            if any(o.startswith("-arch=") for o in options):
                self._module = cupy.RawModule(
                    path=str(cubin.build(code, options)), enable_cooperative_groups=enable_cooperative_groups
                )
            else:
                self._module = cupy.RawModule(
                    code=code, options=options, name_expressions=list(name_expressions) or None,
                    enable_cooperative_groups=enable_cooperative_groups,
                )  # fmt: skip
                self._module.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise CompileError(readable_errors(str(error), code, r"\.cu\((\d+)\)")) from None

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)

    def get_function(self, name: str) -> GpuKernel:
        """The kernel `name`: an extern "C" function of the source, or one of `name_expressions`; else ValueError."""
        declared = self._declared.get(name.split("<")[0].strip())
        if declared is None or (name not in self._named and (declared.template or not declared.extern_c)):
            raise ValueError(missing_kernel(name, self._declared))
        cluster = self._clusters[declared.name]
        return GpuKernel(self, self._module.get_function(name), name, declared.parameters, cluster)


def RawModule(
    code: str,
    *,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    enable_cooperative_groups: bool = False,
) -> "GpuModule | SimulatedModule":
    """Compile CUDA C++ source; `module.get_function(name)` returns its kernels. Arguments as of cupy.RawModule.

    code: the source, as NVRTC takes it (no #include of the C++ library, no host code).
    options: NVRTC's, ("-DTILE=32", "--use_fast_math"); the simulator uses -D, -U and -I. With "-arch=sm_90a", which
    replaces the card's own architecture, NVRTC is called without CuPy, and name_expressions are not supported.
    name_expressions: template kernels to instantiate, ["transpose<float>"].
    enable_cooperative_groups: whether launches are cooperative, which grid.sync() requires.
    CompileError quotes the lines that are wrong; TypeError for arguments of a wrong type.
    """
    if not isinstance(code, str):
        raise TypeError(f"code must be the source as a str, got {type(code).__name__}")
    if isinstance(options, str) or not all(isinstance(o, str) for o in options):
        raise TypeError(f"options must be a tuple of str, got {options!r}")
    made = GpuModule if backend() == "gpu" else SimulatedModule
    return made(code, tuple(options), tuple(name_expressions), enable_cooperative_groups)


def RawKernel(
    code: str, name: str, *, options: Sequence[str] = (), enable_cooperative_groups: bool = False
) -> "GpuKernel | SimulatedKernel":
    """Compile `code` and return its extern "C" kernel `name`. Arguments as of RawModule and cupy.RawKernel.

    Launch it with kernel(grid, block, args, shared_mem=0), where args are arrays of the backend (cuda.asarray) and
    scalars; TypeError names an argument of a wrong dtype. Errors as of RawModule; ValueError for a missing kernel.
    """
    module = RawModule(code, options=options, enable_cooperative_groups=enable_cooperative_groups)
    return module.get_function(name)
