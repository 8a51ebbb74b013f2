"""Batches of decoded pictures through a network: copied to the device, normalised there, computed, copied back.

    engine = Engine(task, network_of(task, "fp16"), batch=256)
    for logits in engine.run(batches):              batches of Task.packed pictures; logits (batch, classes) float32

On a GPU two slots, each with pinned memory on the host and a buffer on the device, let the copy of one batch overlap
with the computation of the one before it: copies run on one stream, kernels on another, and events order them.
"""

import collections
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import cuda
from ..classify import Task
from ..network import Network

SOURCE = Path(__file__).with_name("normalise.cu")
THREADS = 256  # per block
SLOTS = 2  # one is filled while the other one is computed


@dataclass(frozen=True)
class Interval:
    """When something ran: in seconds of time.perf_counter. what: "fill", "copy", "compute" or "wait".

    A batch that is decoded on the device (OnDevice) is so in its "copy".
    """

    what: str
    batch: int
    start: float
    end: float


class OnDevice(Protocol):
    """A batch that is made on the device, as by gpu_decoding."""

    def write(self, out: Any) -> None:
        """Write the batch into `out`, an array on the device of Engine.shape, in the caller's stream."""
        ...


def network_of(task: Task, dtype: str = "fp32") -> Network:
    """A task's network for an engine. dtype: "fp32" or "fp16". Errors as of Network."""
    return Network(task.model, dtype=dtype, optimize="throughput" if cuda.backend() == "gpu" else None)


class Engine:
    """A network for batches of one size, on a GPU or on the simulator.

    task: the preprocessing. network: see network_of; engines of several batch sizes may share one, if they run one at
    a time. batch: pictures per batch. slots: on a GPU, batches in flight; 1: nothing overlaps. ValueError for values
    below 1.
    """

    def __init__(self, task: Task, network: Network, batch: int, slots: int = SLOTS) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, got {slots}")
        on_gpu = cuda.backend() == "gpu"
        self.batch = batch
        self._captured = network.capture(batch, task.input_size)
        height, width = task.input_size
        shape = (3, height, width) if task.normalised_before else (height, width, 3)
        self.shape = (batch, *shape)
        self.packed_type = np.dtype(np.float32 if task.normalised_before else np.uint8)
        self._normalise = _normaliser(task, self._captured.input, network.layout)
        self._pipeline: _Overlapped | _InTurn = _Overlapped(self, slots) if on_gpu else _InTurn(self)

    def run(
        self, batches: Iterable[np.ndarray | OnDevice], log: Callable[[Interval], None] = lambda interval: None
    ) -> Iterator[np.ndarray]:
        """The logits of each batch, (batch, classes) float32, in order; one more batch is read than yielded on a GPU.

        batches: arrays of `shape` and `packed_type`, C-contiguous; those in pinned memory (host_batch) are copied from
        where they are, and must not change until their logits are yielded. log: is called with what ran when, after it
        ended. ValueError for an array of another shape or type.
        """
        return self._pipeline.run(self._checked(batches), log)

    def host_batch(self) -> np.ndarray:
        """A new array of `shape` and `packed_type`, uninitialized: in pinned memory if there is a GPU. Thread-safe."""
        if cuda.backend() != "gpu":
            return np.empty(self.shape, self.packed_type)
        import cupyx

        return cupyx.empty_pinned(self.shape, self.packed_type)  # from a pool: cheap from the second time on

    def _checked(self, batches: Iterable[np.ndarray | OnDevice]) -> Iterator[np.ndarray | OnDevice]:
        for batch in batches:
            if not isinstance(batch, np.ndarray):
                yield batch
                continue
            if batch.shape != self.shape or batch.dtype != self.packed_type:
                expected = f"{self.shape} of {self.packed_type}"
                raise ValueError(f"a batch must have shape {expected}, got {batch.shape} of {batch.dtype}")
            yield batch

    def enqueue(self, packed: Any) -> Any:
        """Launch normalisation and network for a batch on the device; the output's array on the device."""
        self._normalise(packed)
        self._captured.launch()
        return self._captured.output


def _normaliser(task: Task, out: Any, layout: str) -> Callable[[Any], None]:
    """A function that writes a packed batch on the device into the network's input, `out`."""
    if task.normalised_before:

        def assign(packed: Any) -> None:
            out[...] = packed

        return assign
    scalar = "float" if out.dtype == np.float32 else "__half"
    options = (f"-Dscalar_t={scalar}", f"-DCHANNELS_LAST={int(layout == 'NHWC')}")
    kernel = cuda.RawKernel(SOURCE.read_text(encoding="utf-8"), "normalise", options=options)
    batch, _, height, width = out.shape
    count = batch * height * width
    numbers = [np.float32(value) for triple in task.normalisation for value in triple]
    stored = cuda.layout.as_stored(out)

    def normalise(packed: Any) -> None:
        grid = (-(-count // THREADS),)
        kernel(grid, (THREADS,), (packed, stored, np.int32(count), np.int32(height * width), *numbers))

    return normalise


class _InTurn:
    """One batch after the other, for the simulator, whose memory is the host's."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def run(self, batches: Iterator[np.ndarray | OnDevice], log: Callable[[Interval], None]) -> Iterator[np.ndarray]:
        for number, batch in enumerate(batches):
            start = time.perf_counter()
            if isinstance(batch, np.ndarray):
                packed = cuda.asarray(batch)
            else:
                packed = cuda.empty(self.engine.shape, self.engine.packed_type)
                batch.write(packed)
            copied = time.perf_counter()
            logits = _rows(self.engine.enqueue(packed))
            log(Interval("copy", number, start, copied))
            log(Interval("compute", number, copied, time.perf_counter()))
            yield logits


class _Overlapped:
    """Copies of a batch while the one before it is computed, on two streams of a GPU."""

    def __init__(self, engine: Engine, slots: int) -> None:
        import cupy

        self.engine = engine
        self.copying, self.computing = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.slots = [_Slot(engine) for _ in range(slots)]

    def run(self, batches: Iterator[np.ndarray | OnDevice], log: Callable[[Interval], None]) -> Iterator[np.ndarray]:
        pending: collections.deque[tuple[int, _Slot]] = collections.deque()
        cuda.synchronize()  # the weights were copied on another stream
        origin = _Origin(self.computing)
        try:
            for number, batch in enumerate(batches):
                if len(pending) == len(self.slots):
                    yield self._finished(*pending.popleft(), origin, log)
                slot = self.slots[number % len(self.slots)]
                slot.source = batch
                if isinstance(batch, np.ndarray) and not _is_pinned(batch):
                    start = time.perf_counter()
                    np.copyto(slot.host, batch)
                    slot.source = slot.host
                    log(Interval("fill", number, start, time.perf_counter()))
                self._enqueue(slot)
                pending.append((number, slot))
            while pending:
                yield self._finished(*pending.popleft(), origin, log)
        finally:
            self.copying.synchronize()  # also where the caller stops early: the slots are free for the next run
            self.computing.synchronize()

    def _enqueue(self, slot: "_Slot") -> None:
        slot.copy_began.record(self.copying)
        if isinstance(slot.source, np.ndarray):
            slot.device.set(slot.source, stream=self.copying)
        else:
            with self.copying:
                slot.source.write(slot.device)
        slot.copied.record(self.copying)
        with self.computing:
            self.computing.wait_event(slot.copied)
            slot.compute_began.record(self.computing)
            output = self.engine.enqueue(slot.device)
            slot.computed.record(self.computing)
            output = output.astype(np.float32, copy=False)  # of halves NumPy takes nearly as long as the GPU for all
            slot.logits = output.get(stream=self.computing, out=slot.pinned_like(output), blocking=False)
            slot.done.record(self.computing)

    def _finished(self, number: int, slot: "_Slot", origin: "_Origin", log: Callable[[Interval], None]) -> np.ndarray:
        start = time.perf_counter()
        slot.done.synchronize()
        slot.source = None
        log(Interval("wait", number, start, time.perf_counter()))
        log(Interval("copy", number, origin.time(slot.copy_began), origin.time(slot.copied)))
        log(Interval("compute", number, origin.time(slot.compute_began), origin.time(slot.computed)))
        return _rows(slot.logits)


def _is_pinned(array: np.ndarray) -> bool:
    """Whether an array is in memory that the GPU can copy by itself."""
    import cupy

    return cupy.cuda.runtime.pointerGetAttributes(array.ctypes.data).type == 1  # cudaMemoryTypeHost


class _Slot:
    """Pinned memory and device memory of one batch in flight, and the events of its stages.

    source: the batch, in `host` or in pinned memory of its own, or what writes it on the device.
    """

    def __init__(self, engine: Engine) -> None:
        import cupy
        import cupyx

        self.host = cupyx.empty_pinned(engine.shape, engine.packed_type)
        self.device = cupy.empty(engine.shape, engine.packed_type)
        self.source: Any = None
        self.logits: Any = None
        stages = (cupy.cuda.Event() for _ in range(5))
        self.copy_began, self.copied, self.compute_began, self.computed, self.done = stages

    def pinned_like(self, output: Any) -> Any:
        """Pinned memory for the network's output, allocated once."""
        import cupyx

        if self.logits is None:
            self.logits = cupyx.empty_pinned(output.shape, output.dtype)
        return self.logits


class _Origin:
    """A moment on the GPU's clock and the host's, to give events of the GPU in the host's time."""

    def __init__(self, stream: Any) -> None:
        import cupy

        self._event = cupy.cuda.Event()
        self._event.record(stream)
        self._event.synchronize()
        self._host = time.perf_counter()

    def time(self, event: Any) -> float:
        """The time of a completed event, in seconds of time.perf_counter, to some tens of µs."""
        import cupy

        return self._host + cupy.cuda.get_elapsed_time(self._event, event) / 1e3


def _rows(output: Any) -> np.ndarray:
    """The logits on the host as (batch, classes) float32, in memory of their own."""
    host = np.array(cuda.asnumpy(output), np.float32)
    return host.reshape(len(host), -1)
