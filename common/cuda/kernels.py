"""RawKernel and RawModule: on a GPU they are CuPy's, elsewhere the simulator's; both check the arguments."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import cubin, signature
from .device import backend
from .errors import CompileError
from .simulator.compiler import readable_errors
from .simulator.module import SimulatedKernel, SimulatedModule, missing_kernel


class GpuKernel:
    """CuPy's kernel with its arguments checked first. Attributes are CuPy's (num_regs, attributes, ...)."""

    def __init__(self, module: "GpuModule", kernel: Any, name: str, parameters: Sequence[signature.Parameter]) -> None:
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_kernel", kernel)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "origin", module.origin)  # all that it takes to compile it again, for a trace
        object.__setattr__(self, "parameters", list(parameters))

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._kernel, attribute)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._kernel, attribute, value)

    def __call__(self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Launches the kernel on CuPy's current stream. TypeError names an argument that does not fit."""
        self.bound(grid, block, args, shared_mem=shared_mem)()

    def bound(self, grid: tuple, block: tuple, args: Sequence[Any], *, shared_mem: int = 0) -> Callable[[], None]:
        """A launch with its arguments checked once, to be made as often as one likes, as `__call__` makes it."""
        import cupy
        import numpy as np

        blocks, threads = signature.check_sizes(grid, block, shared_mem, self._kernel.max_dynamic_shared_size_bytes)
        values = signature.check(self.name, self.parameters, args, cupy.ndarray)
        values = [np.uint64(0) if v is None else v for v in values]
        return functools.partial(self._kernel, blocks, threads, tuple(values), shared_mem=shared_mem)


class GpuModule:
    """CuPy's RawModule, compiled at once, with errors that name the learner's lines."""

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
        self._named = set(name_expressions)
        options = tuple(options)
        if name_expressions and not any(o.startswith(("-std", "--std")) for o in options):
            options += ("-std=c++17",)
        try:
            if any(o.startswith("-arch=") for o in options):
                self._module = cupy.RawModule(path=str(cubin.build(code, options)))
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
        """The kernel `name`: an extern "C" function of the source, or one of `name_expressions`."""
        declared = self._declared.get(name.split("<")[0].strip())
        if declared is None or (name not in self._named and (declared.template or not declared.extern_c)):
            raise ValueError(missing_kernel(name, self._declared))
        return GpuKernel(self, self._module.get_function(name), name, declared.parameters)


def RawModule(
    code: str,
    *,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    enable_cooperative_groups: bool = False,
) -> "GpuModule | SimulatedModule":
    """Compiles CUDA C++ source; `module.get_function(name)` gives its kernels. Called as cupy.RawModule is.

    code: the source, as NVRTC takes it (no #include of the C++ library, no host code).
    options: NVRTC's, ("-DTILE=32", "--use_fast_math"); on the simulator -D, -U and -I count. With "-arch=sm_90a" in
    place of the card's own architecture NVRTC is called without CuPy, and name_expressions are not to be had.
    name_expressions: template kernels to instantiate, ["transpose<float>"].
    enable_cooperative_groups: launches are cooperative, so that grid.sync() may be used.
    CompileError quotes the lines that are wrong.
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
    """Compiles `code` and returns its extern "C" kernel `name`; called as cupy.RawKernel is:

    kernel(grid, block, args, shared_mem=0), where args are arrays of the backend (cuda.asarray) and scalars.
    TypeError names an argument of a wrong number or dtype, ValueError a kernel that is not there.
    """
    module = RawModule(code, options=options, enable_cooperative_groups=enable_cooperative_groups)
    return module.get_function(name)
