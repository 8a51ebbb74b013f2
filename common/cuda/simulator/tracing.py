"""The call behind cuda.trace: a launch on the simulator with every memory access seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..report import Report
from . import proof
from .memory import fenced
from .module import SimulatedModule
from .watch import check_platform, watch


def prepare_trace(kernel: Any) -> None:
    """Compiles what cuda.trace(kernel, ...) runs, and tries the compiler if it is new, so that a trace only runs it.

    Errors as of cuda.trace. compiler.listeners hear when a compiler is at work.
    """
    check_platform()
    proof.prove(_trace_probe)
    kernel.recompiled(traced=True)


def _trace_probe(source: str, name: str, grid: tuple, block: tuple, args: list) -> Report:
    kernel = SimulatedModule(source, traced=True).get_function(name)
    return watch(kernel, kernel, grid, block, args, 0, None, counting=True)


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
    prepare_trace(kernel)
    arguments, give_back = _on_the_simulator(args)
    traced = kernel.recompiled(traced=True)
    return watch(kernel, traced, grid, block, arguments, shared_mem, blocks, counting=True, done=give_back)


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
