"""A GPU made of a clock: what timing.py asks of CuPy, with streams, events and graphs, on a machine without one."""

import contextlib
from types import SimpleNamespace

GRAPH_LAUNCH_US = 3.0


class Stream:
    """Knows whether it is capturing; what is launched meanwhile is recorded and takes no time."""

    def __init__(self, gpu, ptr, non_blocking=False):
        self.gpu, self.ptr, self.non_blocking, self.captured = gpu, ptr, non_blocking, None

    def __enter__(self):
        self.gpu.streams.append(self)
        return self

    def __exit__(self, *_):
        self.gpu.streams.pop()

    def begin_capture(self):
        assert self.captured is None and self.ptr
        self.captured = []

    def end_capture(self):
        nodes, self.captured = self.captured, None
        if "broken" in nodes:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return Graph(self.gpu, nodes)

    def synchronize(self):
        if self.captured is not None:
            self.captured.append("broken")
            raise RuntimeError("cudaErrorStreamCaptureUnsupported")


class Graph:
    """Kernels, as the times that they take."""

    def __init__(self, gpu, nodes):
        self.gpu, self.nodes = gpu, nodes
        gpu.graphs.append(self)

    def launch(self, stream=None):
        self.gpu.log.append(("replay", len(self.nodes)))
        self.gpu.clock += GRAPH_LAUNCH_US + sum(self.nodes)


class Event:
    """The clock when it was recorded."""

    def __init__(self, gpu):
        self.gpu, self.at = gpu, None

    def record(self, stream=None):
        self.gpu.log.append(("event",))
        self.at = self.gpu.clock

    def synchronize(self):
        assert self.at is not None


class FakeGpu:
    """Stands for the module cupy; `kernel(us)` is a callable that launches one."""

    def __init__(self, l2=60 * 2**20):
        self.clock, self.log, self.graphs, self.pools, self.allocators = 0.0, [], [], [], [None]
        self.streams = [Stream(self, 0)]
        made = iter(range(7, 1000))
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking=False: Stream(self, next(made), non_blocking),
            Event=lambda: Event(self),
            Device=lambda: SimpleNamespace(id=0, synchronize=lambda: self.log.append(("device",))),
            MemoryPool=self._pool,
            using_allocator=self._using,
            get_current_stream=lambda: self.streams[-1],
            get_elapsed_time=lambda first, last: (last.at - first.at) / 1e3,
            runtime=SimpleNamespace(getDeviceProperties=lambda device: {"l2CacheSize": l2}),
        )

    def _pool(self):
        self.pools.append(SimpleNamespace(malloc=object()))
        return self.pools[-1]

    @contextlib.contextmanager
    def _using(self, allocator):
        self.allocators.append(allocator)
        yield
        self.allocators.pop()

    def kernel(self, us, name=""):
        def call():
            stream = self.streams[-1]
            self.log.append(("launch", name))
            if stream.captured is None:
                self.clock += us() if callable(us) else us
            else:
                stream.captured.append(us)

        return call
