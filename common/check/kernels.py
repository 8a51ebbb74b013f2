"""What the check.py of a CUDA exercise is written with: a traced launch, then the GPU, with a hint for each mistake."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import cuda
from ..cuda.report import Report
from ..cuda.simulator.module import SimulatedModule
from ..kernels.ladder import header_options
from . import gpu
from .answers import Wrong

_BARRIER = "every thread of the block must reach the same __syncthreads: none may stand where only some threads go"

# What deserves which hint. The first of these kinds that a trace found is the one that is told.
HINTS = {
    "deadlock": _BARRIER,
    "divergent-barrier": _BARRIER,
    "out-of-bounds": "compare the index with the array's size before you use it; the last block has threads to spare",
    "misaligned": "a float4 starts at a multiple of 16 bytes",
    "race": "two threads use the same place and nothing says who comes first: a __syncthreads must stand between them,"
    " or only one thread may write",
    "uninitialised-read": "what is read from shared memory, a thread of the same block must have written before",
    "stopped": "run it under cuda.guarded() for the line",
}


def launch(
    source: str,
    name: str,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    *,
    what: str,
    hints: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    shared_mem: int = 0,
    cooperative: bool = False,
) -> Report:
    """Run the answer's kernel with every access seen. Raises Wrong unless it compiles and the trace finds nothing.

    The simulator runs it, also on a machine with a GPU, whose context a wrong kernel could end. Outputs are in args,
    NumPy arrays. Where kernels run on a GPU, it runs there next, on the arrays as they were, and must leave in them
    what the simulator left.

    what        the launch in words: "row_sums of a 7 × 33 matrix"
    hints       by kind of finding, where the exercise knows better than HINTS and gpu.HINTS
    options     of the compiler, "-Dscalar_t=__half"; vec.h and ptx.h of common.kernels may be included
    shared_mem  bytes of dynamic shared memory
    cooperative whether the launch is cooperative, for a kernel with a barrier of the grid
    """
    try:
        kernel = SimulatedModule(source, (*header_options(), *options), (), cooperative).get_function(name)
    except cuda.CompileError as error:
        raise Wrong(str(error), "lines are counted from the one below %%exercise") from None
    except ValueError as error:  # no such kernel
        raise Wrong(str(error), 'leave the kernel\'s name and extern "C" as they are') from None
    kernel.max_dynamic_shared_size_bytes = max(shared_mem, kernel.max_dynamic_shared_size_bytes)
    before = gpu.copies(args)
    try:
        report = cuda.trace(kernel, grid, block, args, shared_mem)
    except (TypeError, ValueError) as error:
        raise Wrong(str(error), "leave the kernel's parameters as they are") from None
    except cuda.KernelError as error:
        raise Wrong(f"{what}: {error}", "") from None
    hints = {**HINTS, **gpu.HINTS, **(hints or {})}
    for kind in HINTS:
        for finding in report.findings:
            if finding.kind == kind:
                raise Wrong(f"{what}: {finding}", hints[kind], report)
    if cuda.backend() == "gpu":
        gpu.agree(kernel, grid, block, args, before, shared_mem, what, hints)
    return report
