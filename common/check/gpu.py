"""Run an answer whose trace is clean on the GPU as well: its results must match the simulator's."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from .. import cuda
from ..cuda.simulator.module import SimulatedKernel
from ..kernels.ladder import required
from .answers import Wrong, how_it_differs

# |GPU − simulator| ≤ this · the array's maximum: sums in another order differ by less, mistakes by more
TOLERANCES = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}

HINTS = {
    "gpu": "the trace has seen no race, so look for an order that is only likely: one block that relies on what another"
    " has done, a flag without a fence; or for sums that lose their digits when they are added up in another order",
    "gpu-compile": "the simulator takes more than NVRTC does: no #include of the C++ library, and only what the"
    " GPU at hand knows",
    "gpu-launch": "more threads, registers or shared memory than a block may have on this GPU, or an instruction that"
    " it does not know",
}


_found: ContextVar[list[Wrong] | None] = ContextVar("found", default=None)


@contextlib.contextmanager
def after_checks() -> Iterator[None]:
    """Inside, `agree` defers its errors: the first is raised at the end, unless the check itself failed before.

    A check explains a wrong answer better than the comparison with the simulator does.
    """
    found: list[Wrong] = []
    token = _found.set(found)
    try:
        yield
    finally:
        _found.reset(token)
    if found:
        raise found[0]


def copies(args: Sequence[Any]) -> dict[int, np.ndarray]:
    """Copies of the arrays among the arguments by id(array), in their memory order; one per array passed twice."""
    return {id(array): array.copy(order="K") for array in args if isinstance(array, np.ndarray)}


def _in_memory_order(array: np.ndarray) -> np.ndarray:
    """All elements (1-D) in memory order, as a kernel sees them through its pointer."""
    return array.ravel(order="K")


def _launch(
    origin: tuple, name: str, grid: tuple, block: tuple, args: Sequence[Any], before: Mapping[int, np.ndarray],
    shared_mem: int,
) -> dict[int, np.ndarray]:  # fmt: skip
    """Run the kernel on the GPU on copies of the arrays; return each array afterwards by id, in memory order."""
    source, options, _, cooperative = origin
    how = {"enable_cooperative_groups": True} if cooperative else {}
    kernel = cuda.RawKernel(source, name, options=options, **how)
    cuda.allow_shared(kernel, shared_mem)
    arrays = {key: cuda.asarray(_in_memory_order(array)) for key, array in before.items()}
    kernel(grid, block, [arrays.get(id(arg), arg) for arg in args], shared_mem=shared_mem)
    return {key: cuda.asnumpy(array) for key, array in arrays.items()}


def agree(
    kernel: SimulatedKernel,
    grid: tuple,
    block: tuple,
    args: Sequence[Any],
    before: Mapping[int, np.ndarray],
    shared_mem: int,
    what: str,
    hints: Mapping[str, str],
) -> None:
    """Raise Wrong unless a launch on the GPU leaves in every array what the simulator left in `args`.

    Inside `after_checks` the error is deferred to its end. A kernel that needs a newer card is not run.

    before   the arrays before the simulator's launch (`copies`)
    what     the launch in words, for messages
    hints    by kind: "gpu", "gpu-compile", "gpu-launch"
    """
    if required(kernel.origin[0]) > cuda.compute_capability():
        return
    found = _found.get()
    try:
        _compare(kernel, grid, block, args, before, shared_mem, what, hints)
    except Wrong as wrong:
        if found is None:
            raise
        found.append(wrong)


def _compare(
    kernel: SimulatedKernel, grid: tuple, block: tuple, args: Sequence[Any], before: Mapping[int, np.ndarray],
    shared_mem: int, what: str, hints: Mapping[str, str],
) -> None:  # fmt: skip
    """As `agree`, without deferring."""
    try:
        left = _launch(kernel.origin, kernel.name, grid, block, args, before, shared_mem)
    except cuda.CompileError as error:
        raise Wrong(f"{what}: on the GPU, {error}", hints["gpu-compile"]) from None
    except (RuntimeError, ValueError) as error:  # CuPy's errors for a launch that CUDA rejects
        raise Wrong(f"{what}: on the GPU, {error}", hints["gpu-launch"]) from None
    for parameter, arg in zip(kernel.parameters, args, strict=True):
        if id(arg) not in left:
            continue
        want = _in_memory_order(arg)
        found = how_it_differs(left[id(arg)], want, TOLERANCES.get(want.dtype, 0.0), 0.0)
        if found:
            raise Wrong(f"{what}: on the GPU {parameter.name}{found}, as the simulator has it", hints["gpu"])
