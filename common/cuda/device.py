"""Which machine runs the kernels, and what it has."""

import functools
import os
from typing import Any

SHARED_DEFAULT = 48 * 1024  # bytes of shared memory that a block of any kernel may use on any card
SHARED_SM80 = 99 * 1024  # bytes that a block may ask for on every card from sm_80 on
SHARED_MAX = 227 * 1024  # bytes that a block may ask for on an H200; as many on the simulator


@functools.cache
def _find_gpu() -> str | None:
    """None when CuPy finds a GPU it can use, else the reason why not."""
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
    """ "gpu" if kernels run on a GPU through CuPy, "simulator" if they run on this machine's CPU.

    The environment variable COURSE_DEVICE asks for one of the two by name. RuntimeError if it asks for a
    GPU that is not there, or for anything else.
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
        raise RuntimeError(f"COURSE_DEVICE=gpu, but {missing}. `python -m common doctor` says what to do.")
    return "simulator"


def compute_capability() -> int:
    """What the GPU at hand can do, as NVIDIA counts it: 75 for sm_75 (Turing), 90 for sm_90 (Hopper).

    The simulator counts as 80, whose instructions it knows (__CUDA_ARCH__ is 800 there).
    """
    if backend() == "simulator":
        return 80
    import cupy

    return _capability(cupy.cuda.runtime.getDevice())


@functools.cache
def _capability(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).compute_capability)


def multiprocessors() -> int:
    """How many multiprocessors the GPU at hand has; on the simulator, how many cores the CPU has."""
    if backend() == "simulator":
        return os.cpu_count() or 1
    import cupy

    return _multiprocessors(cupy.cuda.runtime.getDevice())


@functools.cache
def _multiprocessors(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def shared_memory() -> int:
    """Bytes of shared memory that a block may ask for on the GPU at hand; the simulator has as many as an H200."""
    if backend() == "simulator":
        return SHARED_MAX
    import cupy

    return _shared_memory(cupy.cuda.runtime.getDevice())


def allow_shared(kernel: Any, size: int) -> None:
    """Lets launches of a kernel ask for `size` bytes of dynamic shared memory: more than 48 KiB must be allowed."""
    if kernel.max_dynamic_shared_size_bytes < size:
        kernel.max_dynamic_shared_size_bytes = size


@functools.cache
def _shared_memory(device: int) -> int:
    import cupy

    return int(cupy.cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"])
