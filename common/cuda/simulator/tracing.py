"""cuda.trace: a launch on the simulator with every memory access recorded."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..report import Report
from ..tensor_map import TensorMap
from . import proof
from .memory import fenced
from .module import SimulatedModule
from .watch import check_platform, watch


def prepare_trace(kernel: Any) -> None:
    """Compile the checked build that cuda.trace(kernel, ...) runs, and check a new compiler (proof.py), in advance.

    Errors as of cuda.trace. compiler.listeners are called for the compilations.
    """
    check_platform()
    proof.prove(_trace_probe)
    kernel.recompiled(traced=True)


def _trace_probe(source: str, name: str, grid: tuple, block: tuple, args: list) -> Report:
    kernel = SimulatedModule(source, traced=True).get_function(name)
    return watch(kernel, kernel, grid, block, args, 0, None, counting=True)


def trace(
    kernel: Any,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    shared_mem: int = 0,
    blocks: Any = None,
    merge: Any = None,
    alone: bool = False,
) -> Report:
    """Run a launch on the simulator with every memory access recorded; return a Report, as of profiler and sanitizer.

    kernel       from cuda.RawKernel or RawModule.get_function. On a machine with a GPU, too, the simulator runs it, on
                 copies of the arrays
    grid, block, args, shared_mem   as for a call of the kernel. Outputs are written as by a call, except by threads
                 that were stopped at a bad address
    blocks       the number of blocks to trace, from the first, or a collection of block numbers,
                 x + gridDim.x · (y + gridDim.y · z); None: all. Blocks of the same cluster are traced together
    merge        None: accesses are counted as the source has them. cuda.inspect(kernel): where the machine code has
                 wide loads or stores of shared memory for narrower ones of the source, those of a thread that fill
                 such a width are counted as one
    alone        whether only the traced blocks run, which takes less time; the others write no outputs then. Not for a
                 kernel whose blocks wait for one another. Clusters, and blocks of a cooperative launch, all run

    Errors as for a call, except for what becomes a finding of the report; RuntimeError on a system without ELF files,
    and for a compiler that fails the probes of proof.py.

    Distributed shared memory of another block is counted like a block's own.

    With g++, the counts of hundreds of random programs equal those of a brute-force model of lockstep warps
    (tests/trace/lockstep.py). With clang this holds for all kernels of the tests and for about 96 % of the random
    programs: clang reorders the basic blocks of nested loops that lanes leave at different times.
    """
    prepare_trace(kernel)
    arguments, copy_back = _on_the_simulator(args)
    traced = kernel.recompiled(traced=True)
    if merge is not None and merge.source != kernel.origin[0]:
        raise ValueError(f"merge must be cuda.inspect of the same source, got one of {merge.kernel}")
    widths = None if merge is None else merge.widths()
    return watch(
        kernel,
        traced,
        grid,
        block,
        arguments,
        shared_mem,
        blocks,
        counting=True,
        done=copy_back,
        widths=widths,
        alone=alone,
    )


def _on_the_simulator(args: Sequence[Any]) -> tuple[list[Any], Any]:
    """(arguments with CuPy arrays replaced by NumPy copies in the same order, a function that copies the results back).

    An array that is passed twice has one copy. Different views of one array have different copies.
    """
    copies: dict[tuple, tuple[Any, np.ndarray, np.ndarray]] = {}

    def copied(array: Any) -> Any:
        if type(array).__module__.split(".")[0] != "cupy":
            return array
        key = (array.data.ptr, array.shape, array.strides, array.dtype)
        if key not in copies:
            before = array.get()
            turned = before.flags.f_contiguous and not before.flags.c_contiguous
            copy = fenced(before.shape[::-1], before.dtype).T if turned else fenced(before.shape, before.dtype)
            copy[...] = before
            copies[key] = array, copy, before
        return copies[key][1]

    arguments = [TensorMap(copied(one.matrix), one.box) if isinstance(one, TensorMap) else copied(one) for one in args]

    def copy_back() -> None:
        for original, copy, before in copies.values():
            if copy.tobytes() != before.tobytes():
                original.set(copy)

    return arguments, copy_back
