"""The device that runs kernels, and its properties."""

import contextlib
import functools
import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from ..text import PACKAGE_NAME

SHARED_DEFAULT = 48 * 1024  # bytes of shared memory per block without opt-in, on every card
SHARED_SM80 = 99 * 1024  # bytes per block with opt-in, on every card from sm_80 on
SHARED_MAX = 227 * 1024  # bytes per block with opt-in on an H200, and on the simulator


@functools.cache
def _find_gpu() -> str | None:
    """None if CuPy finds a GPU, else the reason why not."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no CUDA driver or device ({error})"
    return None if count else "CuPy finds no CUDA device"


def backend() -> str:
    """Where kernels run: "gpu", through CuPy, if there is one, else "simulator", on this machine's CPU.

    The environment variable COURSE_DEVICE selects one of the two. RuntimeError if it selects a GPU and none is found,
    or has another value.
    """
    wanted = os.environ.get("COURSE_DEVICE", "")
    if wanted == "simulator":
        return "simulator"
    if wanted not in ("", "gpu"):
        raise RuntimeError(f"COURSE_DEVICE must be 'gpu' or 'simulator', got {wanted!r}")
    missing = _find_gpu()
    if missing is None:
        return "gpu"
    if wanted == "gpu":
        raise RuntimeError(f"COURSE_DEVICE=gpu, but {missing}. `python -m {PACKAGE_NAME} doctor` says what to do.")
    return "simulator"


# (compute capability, multiprocessors, bytes of shared memory per block) that `as_if` says
_pretended: ContextVar[tuple[int, int, int] | None] = ContextVar("pretended", default=None)


@contextlib.contextmanager
def as_if(capability: int, processors: int, shared: int) -> Iterator[None]:
    """Inside, the functions below answer for another card, so that launchers choose as they would there.

    For launches that are not made: what runs kernels does not change. Only within the thread that asks for it.
    """
    token = _pretended.set((capability, processors, shared))
    try:
        yield
    finally:
        _pretended.reset(token)


def for_a_card() -> bool:
    """Whether launchers choose for a card: on a GPU, and inside `as_if`."""
    return _pretended.get() is not None or backend() == "gpu"


def compute_capability() -> int:
    """The compute capability of the current GPU: 75 for sm_75 (Turing), 90 for sm_90 (Hopper).

    80 on the simulator, which supports the instructions of sm_80 (__CUDA_ARCH__ is 800 there).
    """
    if (other := _pretended.get()) is not None:
        return other[0]
    if backend() == "simulator":
        return 80
    import cupy

    return _capability(cupy.cuda.runtime.getDevice())


@functools.cache
def _capability(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).compute_capability)


def multiprocessors() -> int:
    """Number of multiprocessors of the current GPU; on the simulator, number of CPU cores."""
    if (other := _pretended.get()) is not None:
        return other[1]
    if backend() == "simulator":
        return os.cpu_count() or 1
    import cupy

    return _multiprocessors(cupy.cuda.runtime.getDevice())


@functools.cache
def _multiprocessors(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def shared_memory() -> int:
    """Bytes of shared memory per block, with opt-in, of the current GPU; on the simulator those of an H200."""
    if (other := _pretended.get()) is not None:
        return other[2]
    if backend() == "simulator":
        return SHARED_MAX
    import cupy

    return _shared_memory(cupy.cuda.runtime.getDevice())


def allow_shared(kernel: Any, size: int) -> None:
    """Raise a kernel's limit of dynamic shared memory to `size` bytes, which more than 48 KiB require."""
    if kernel.max_dynamic_shared_size_bytes < size:
        kernel.max_dynamic_shared_size_bytes = size


@functools.cache
def _shared_memory(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"])
