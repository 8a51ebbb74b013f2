"""CUDA graphs: the launches of a call, captured once and launched together; and the stream for the capture.

graph = graphs.capture(call)
graph.launch()
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..text import PACKAGE_NAME
from .device import backend


class NoGpu(RuntimeError):
    """An operation that requires a GPU was called on the simulator."""


def gpu() -> Any:
    """The module cupy. NoGpu on the simulator."""
    if backend() != "gpu":
        raise NoGpu(
            "nothing is timed on the simulator: the time of a kernel there is that of loops on a processor, which says"
            " nothing about a GPU. Times that were recorded on a GPU are in 06_optimize/results;"
            f" `python -m {PACKAGE_NAME} doctor` says why there is no GPU here."
        )
    import cupy

    return cupy


def _torch() -> Any:
    """The module torch, if it has been imported and has CUDA; else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


@functools.cache
def _stream(device: int) -> Any:
    # never freed: PyTorch's allocator refers to streams that it has seen.
    # A blocking stream: it synchronizes with the null stream, so launches of libraries there are ordered with it.
    return gpu().cuda.Stream()


@contextlib.contextmanager
def on_stream() -> Iterator[Any]:
    """Context manager: inside, CuPy and PyTorch have the same current stream, which it yields.

    So events on it time the launches of both. It is CuPy's current stream, or a stream of this module if that is the
    null stream, which cannot be captured. NoGpu on the simulator.
    """
    cupy, torch = gpu(), _torch()
    with contextlib.ExitStack() as stack:
        stream = cupy.cuda.get_current_stream()
        if stream.ptr in (0, 1):  # the null stream, or its handle cudaStreamLegacy
            device = cupy.cuda.Device()
            device.synchronize()  # copies of inputs may be pending on any stream
            stack.callback(device.synchronize)
            stream = stack.enter_context(_stream(device.id))
        if torch is not None:
            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield stream


class CudaGraph:
    """A cupy.cuda.Graph with the memory pools of the arrays that were allocated during the capture."""

    def __init__(self, graph: Any, memory: tuple[Any, ...]) -> None:
        self._graph, self._memory = graph, memory

    def launch(self, stream: Any = None) -> None:
        """Enqueue the graph on a CuPy stream; default: the current one."""
        self._graph.launch(stream)


def capture(call: Callable[[], Any]) -> CudaGraph:
    """The launches of `call()` on the current stream as one CUDA graph. `call` runs once before, to compile.

    Arrays that `call` allocates through CuPy or PyTorch come from pools that live as long as the graph, because its
    kernels use the same addresses in every launch. If `call` raises, or does something that cannot be captured
    (synchronizes, copies from the host), that error is raised and the stream's capture is ended.
    NoGpu on the simulator.
    """
    cupy = gpu()
    with on_stream() as stream, contextlib.ExitStack() as stack:
        pools = [cupy.cuda.MemoryPool()]
        stack.enter_context(cupy.cuda.using_allocator(pools[0].malloc))
        torch = _torch()
        if torch is not None:
            pools.append(torch.cuda.MemPool())
            stack.enter_context(torch.cuda.use_mem_pool(pools[1]))
        call()
        stream.begin_capture()
        try:
            call()
        except BaseException:
            with contextlib.suppress(Exception):  # the capture is invalid
                stream.end_capture()
            raise
        return CudaGraph(stream.end_capture(), tuple(pools))


_recording = threading.Lock()


@functools.cache
def _quiet_stream(device: int) -> Any:
    """A stream that does not synchronize with the null stream, so that others may launch there during a capture."""
    return gpu().cuda.Stream(non_blocking=True)


def record(call: Callable[[], Any]) -> CudaGraph:
    """The launches of `call()`, which has run before, as one CUDA graph; `call` enqueues on CuPy's current stream.

    Unlike `capture` it runs nothing, and other threads may launch meanwhile, also on the null stream. What CUDA allows
    no thread during a capture is to synchronize the whole device. Errors as of `capture`; NoGpu on the simulator.
    """
    cupy = gpu()
    pool = cupy.cuda.MemoryPool()
    with _recording, cupy.cuda.using_allocator(pool.malloc), _quiet_stream(cupy.cuda.Device().id) as stream:
        stream.begin_capture()
        try:
            call()
        except BaseException:
            with contextlib.suppress(Exception):  # the capture is invalid
                stream.end_capture()
            raise
        return CudaGraph(stream.end_capture(), (pool,))
