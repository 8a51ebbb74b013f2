"""CUDA graphs: what a call launches, recorded once and launched again as a whole. And the stream to record on.

graph = graphs.capture(call)
graph.launch()
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .device import backend


class NoGpu(RuntimeError):
    """There is nothing to time: kernels run on the simulator here."""


def gpu() -> Any:
    """The module cupy, where kernels run on a GPU. NoGpu elsewhere."""
    if backend() != "gpu":
        raise NoGpu(
            "nothing is timed on the simulator: the time of a kernel there is that of loops on a processor, which says"
            " nothing about a GPU. Times that were recorded on a GPU are in 06_optimize/results;"
            " `python -m common doctor` says why there is no GPU here."
        )
    import cupy

    return cupy


def _torch() -> Any:
    """PyTorch, if this program has imported it and it sees a GPU; else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


@functools.cache
def _stream(device: int) -> Any:
    # kept for good: what PyTorch's allocator remembers of a stream must not outlive it.
    # It waits for the null stream and the null stream for it, so nothing that a library launches there is missed.
    return gpu().cuda.Stream()


@contextlib.contextmanager
def on_stream() -> Iterator[Any]:
    """Inside, one stream is current for CuPy and PyTorch alike, so that events on it time what either launches.

    It is CuPy's current stream, or one of this module's own where that is the null stream, which cannot be captured.
    NoGpu on the simulator.
    """
    cupy, torch = gpu(), _torch()
    with contextlib.ExitStack() as stack:
        stream = cupy.cuda.get_current_stream()
        if stream.ptr in (0, 1):  # the null stream, in either spelling
            device = cupy.cuda.Device()
            device.synchronize()  # inputs may still be on their way, on whatever stream
            stack.callback(device.synchronize)
            stream = stack.enter_context(_stream(device.id))
        if torch is not None:
            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield stream


class CudaGraph:
    """A cupy.cuda.Graph together with the memory that its kernels were given while it was captured."""

    def __init__(self, graph: Any, memory: tuple[Any, ...]) -> None:
        self._graph, self._memory = graph, memory

    def launch(self, stream: Any = None) -> None:
        """Enqueues everything on a CuPy stream, by default the current one."""
        self._graph.launch(stream)


def capture(call: Callable[[], Any]) -> CudaGraph:
    """What `call()` launches on the current stream, as one CUDA graph. It is called once before, to compile.

    Arrays that it allocates through CuPy or PyTorch come from pools that live as long as the graph: its kernels write
    to the same addresses at every launch, which nobody else may be given. If `call` fails, or does what cannot be
    captured (it waits for the GPU, it copies from the host), that error is raised and the stream is as before.
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
            with contextlib.suppress(Exception):  # that the capture is broken is known
                stream.end_capture()
            raise
        return CudaGraph(stream.end_capture(), tuple(pools))
