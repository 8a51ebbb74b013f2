"""Timing on a GPU: CUDA events around many calls, medians with p5 and p95, benchmarks interleaved in one process.

    time(lambda: conv2d(x, weight, out=y))                 hot: the same buffers in every call
    time([lambda: ..., lambda: ..., ...])                  rotating: one set of buffers each, see `rotations`
    both = compare({"ours": a, "cudnn": b})                a round A B, a round B A, ...
    both["ours"].median_us, both.ratio("ours", "cudnn")    a median, and a ratio with its confidence interval

    compare({"ours": Lone(graph.launch)}), compare({"ours": Cold(graph.launch)})

A sample is many calls between two events, so that the events' own cost and resolution are negligible. One more round is
launched before the first event: the GPU is then still busy when the timed calls arrive, and its caches are in the state
that they leave. So the result is the time per call in a sequence of calls, without the launch latency of Python;
"eager" is limited by Python where Python is slower than the GPU.

Back to back is how a server under load calls. Two other samples are one call each:

    Lone    one call after IDLE_US without work, on the host's clock: from the call until the host sees its end
    Cold    one call after the L2 cache was filled with other data, between events: weights come from DRAM as well
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

import numpy as np

from ..cuda import graphs

LAUNCHES = ("graph", "eager", "host", "loop")  # of records; "loop": many in one call of a runtime, see Benchmark

SAMPLE_US = {"graph": 200.0, "eager": 5_000.0, "host": 5_000.0}  # the least time of a sample
MAX_CALLS = {"graph": 200, "eager": 10_000, "host": 10_000}  # per sample, unless one round has more
WARM_UP_US = 20_000.0
IDLE_US = 2_000.0  # before a lone call; the clocks of an idle GPU stay up much longer
SHORTEST_CALL_US = 0.3  # an empty kernel takes at least 1 µs


# ---- One benchmark


@dataclass(frozen=True)
class Timing:
    """Microseconds per call: median, 5th and 95th percentile of `samples` samples of `calls` calls each.

    launch: "graph", "eager" or "host"; mode: "hot" (the same buffers in every call), "rotating" (sets of them), "lone"
    or "cold".
    """

    median_us: float
    p5_us: float
    p95_us: float
    samples: int
    calls: int
    launch: str
    mode: str

    @classmethod
    def of(cls, times_us: Sequence[float], calls: int = 1, launch: str = "graph", mode: str = "hot") -> "Timing":
        """The statistics of samples in µs per call; percentiles are interpolated linearly."""
        p5, median, p95 = (float(value) for value in np.percentile(times_us, (5, 50, 95)))
        return cls(median, p5, p95, len(times_us), calls, launch, mode)


class Benchmark:
    """One callable to time, or several over different buffers that are called in turn.

    launch: "graph", rounds of the calls captured in one CUDA graph and replayed; "eager", enqueued from Python one
    after the other; "host", for a runtime with streams of its own: wall-clock time of the calls and one `wait()`, which
    returns when the last of them is complete. A call that replays a graph of its own is "eager". times: how often each
    call does what is timed; the result is for one of them. warm_up_us: spent in samples that do not count before the
    first one that does. ValueError for no calls, an unknown launch, or a `wait` with another launch than "host";
    TypeError for a call that is not callable.
    """

    def __init__(
        self,
        calls: Callable[[], Any] | Sequence[Callable[[], Any]],
        launch: str = "graph",
        wait: Callable[[], Any] | None = None,
        warm_up_us: float = WARM_UP_US,
        times: int = 1,
    ) -> None:
        self.warm_up_us = warm_up_us
        self.calls: tuple[Callable[[], Any], ...] = (calls,) if callable(calls) else tuple(calls)
        if not self.calls:
            raise ValueError("calls must be a callable or a sequence of at least one, got none")
        for call in self.calls:
            if not callable(call):
                raise TypeError(f"calls must be callable, got {type(call).__name__}")
        if launch not in SAMPLE_US:
            raise ValueError(f"launch must be one of {', '.join(SAMPLE_US)}, got {launch!r}")
        if times < 1:
            raise ValueError(f"times must be at least 1, got {times}")
        if (wait is not None) != (launch == "host"):
            raise ValueError(
                f"wait must {'be a callable' if launch == 'host' else 'be None'} with launch={launch!r}, got {wait!r}"
            )
        self.launch, self.wait, self.times = launch, wait, times
        self.rounds = 0  # how often all calls are made per sample; 0: not prepared yet
        self._graph: graphs.CudaGraph | None = None

    @property
    def mode(self) -> str:
        """ "hot" for one call, "rotating" for several."""
        return "hot" if len(self.calls) == 1 else "rotating"

    @property
    def calls_in_a_sample(self) -> int:
        """How many times one sample does what is timed. 0 before `prepare`."""
        return self.rounds * len(self.calls) * self.times

    def prepare(self) -> None:
        """Warm up, and determine how many calls a sample needs. NoGpu on the simulator.

        ValueError if a call takes less time than any kernel: it launches nothing, or on another stream.
        """
        with graphs.on_stream():
            self._run(1)  # compiles
            most = max(1, MAX_CALLS[self.launch] // len(self.calls))
            rounds = 1
            while True:
                self._record(rounds)
                sample = min(self._sample() for _ in range(3))
                if sample >= SAMPLE_US[self.launch] or rounds == most:
                    break
                wanted = rounds * SAMPLE_US[self.launch] / max(sample, 1e-3)
                rounds = min(most, max(2 * rounds, math.ceil(1.1 * wanted)))
            warm_up = 0.0
            for _ in range(math.ceil(self.warm_up_us / SAMPLE_US[self.launch])):
                warm_up += self._sample()
                if warm_up >= self.warm_up_us:
                    break
        call = sample / self.calls_in_a_sample
        if self.launch != "host" and call < SHORTEST_CALL_US:
            self.rounds = 0
            raise ValueError(
                f"a call took {call:.3f} µs, less than any kernel does: it launches nothing on the stream that is timed"
                " (CuPy's current stream, which is PyTorch's as well)"
            )

    def sample(self) -> float:
        """Take one sample: µs per call. Calls `prepare` first if that is needed."""
        if not self.rounds:
            self.prepare()
        with graphs.on_stream():
            return self._sample() / self.calls_in_a_sample

    def timing(self, times_us: Sequence[float]) -> Timing:
        """The statistics of samples of this benchmark, each in µs per call."""
        return Timing.of(times_us, self.calls_in_a_sample, self.launch, self.mode)

    def _run(self, rounds: int) -> None:
        for _ in range(rounds):
            for call in self.calls:
                call()

    def _record(self, rounds: int) -> None:
        if self.launch == "graph":
            self._graph = None  # frees its memory before more is allocated
            self._graph = graphs.capture(lambda: self._run(rounds))
        self.rounds = rounds

    def _sample(self) -> float:
        """Take one sample: µs of all rounds together."""
        if self.wait is not None:
            self.calls[-1]()
            self.wait()
            start = perf_counter()
            self._run(self.rounds)
            self.wait()
            return (perf_counter() - start) * 1e6
        cupy = graphs.gpu()
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        if self._graph is not None:
            self._graph.launch()
            first.record()
            self._graph.launch()
        else:
            self.calls[-1]()
            first.record()
            self._run(self.rounds)
        last.record()
        last.synchronize()
        return cupy.cuda.get_elapsed_time(first, last) * 1e3


class Lone(Benchmark):
    """One call after an idle gap: the host's time from the call until the GPU has completed it and the host knows.

    It has the launch, the call, and the synchronization in it. call: enqueues on CuPy's current stream; or with `wait`,
    as for Benchmark, on streams of its runtime.
    """

    def __init__(self, call: Callable[[], Any], wait: Callable[[], Any] | None = None) -> None:
        super().__init__(call, "host" if wait else "eager", wait)

    @property
    def mode(self) -> str:
        """ "lone"."""
        return "lone"

    def prepare(self) -> None:
        """Warm up; a sample is always one call. NoGpu on the simulator."""
        with graphs.on_stream():
            self.rounds, spent = 1, 0.0
            while spent < WARM_UP_US:
                spent += max(self._sample(), 1.0)

    def _sample(self) -> float:
        wait = self.wait or graphs.gpu().cuda.get_current_stream().synchronize
        wait()
        sleep(IDLE_US / 1e6)
        start = perf_counter()
        self.calls[0]()
        wait()
        return (perf_counter() - start) * 1e6


class Cold(Lone):
    """One call right after the L2 cache was filled with other data: GPU time between two events around the call.

    The cache is filled by reading a buffer of twice its size, so nothing has to be written back during the call. While
    that runs the host enqueues the events and the call: the launch takes no part. call: enqueues on CuPy's current
    stream.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(call)

    @property
    def mode(self) -> str:
        """ "cold"."""
        return "cold"

    def _sample(self) -> float:
        cupy = graphs.gpu()
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.cuda.get_current_stream().synchronize()
        evict()
        first.record()
        self.calls[0]()
        last.record()
        last.synchronize()
        return cupy.cuda.get_elapsed_time(first, last) * 1e3


def evict() -> None:
    """Enqueue reads of twice the L2 cache's size on CuPy's current stream, which leave nothing else in it."""
    data, largest = _filling(graphs.gpu().cuda.Device().id)
    data.max(out=largest)


@functools.cache
def _filling(device: int) -> tuple[Any, Any]:
    """(random numbers of twice the size of the L2 cache, a place for their maximum), float32."""
    cupy = graphs.gpu()
    count = 2 * cupy.cuda.runtime.getDeviceProperties(device)["l2CacheSize"] // 4
    return cupy.random.random(count, dtype=np.float32), cupy.empty((), np.float32)


Timed = Benchmark | Callable[[], Any] | Sequence[Callable[[], Any]]


def time(
    calls: Callable[[], Any] | Sequence[Callable[[], Any]],
    *,
    launch: str = "graph",
    wait: Callable[[], Any] | None = None,
    samples: int = 50,
) -> Timing:
    """Time a call; calls, launch and wait as for Benchmark. ValueError below 5 samples; NoGpu on the simulator."""
    _check_samples(samples, 5)
    benchmark = Benchmark(calls, launch, wait)
    with graphs.on_stream():
        benchmark.prepare()
        return benchmark.timing([benchmark.sample() for _ in range(samples)])


def once(call: Callable[[], Any]) -> float:
    """A rough time of one call in µs, to decide how many calls to make. NoGpu on the simulator."""
    cupy = graphs.gpu()
    with graphs.on_stream():
        call()  # compiles
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        call()
        last.record()
        last.synchronize()
        return cupy.cuda.get_elapsed_time(first, last) * 1e3


def rotations(bytes_of_one_set: int) -> int:
    """How many sets of buffers of this size together exceed twice the card's L2 cache; at least 2.

    If they are used in turn, each has left the cache before it is used again. ValueError for a size below 1; NoGpu on
    the simulator.
    """
    if bytes_of_one_set < 1:
        raise ValueError(f"bytes_of_one_set must be at least 1, got {bytes_of_one_set}")
    cupy = graphs.gpu()
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return _rotations(bytes_of_one_set, properties["l2CacheSize"])


def _rotations(bytes_of_one_set: int, l2: int) -> int:
    return max(2, 2 * l2 // bytes_of_one_set + 1)


def _check_samples(samples: int, least: int) -> None:
    if samples < least:
        raise ValueError(f"samples must be at least {least}, got {samples}")


# ---- Several benchmarks compared


@dataclass(frozen=True)
class Ratio:
    """A median ratio, and its 95 % confidence interval [low, high]."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> "Ratio":
        """The median and its interval from order statistics, for any distribution of the ratios.

        Each of m ratios lies below the true median with probability 1/2. So the l-th smallest lies above it with
        probability P(B < l), B binomial (m, 1/2), and by symmetry the l-th largest below it. The interval between the
        two, with the largest l for which P(B < l) ≤ 2.5 %, contains the median with probability 1 - 2 P(B < l) ≥ 95 %
        (H. A. David, H. N. Nagaraja, Order Statistics, section 7.1). ValueError for fewer than 6 ratios, whose whole
        range is too narrow.
        """
        m = len(ratios)
        if m < 6:
            raise ValueError(f"a 95 % interval needs at least 6 ratios, got {m}")
        below, rank = 1, 0  # of the 2^m outcomes, those with B ≤ rank
        while 40 * below <= 2**m:
            rank += 1
            below += math.comb(m, rank)
        ordered = sorted(float(value) for value in ratios)
        return cls(float(np.median(ordered)), ordered[rank - 1], ordered[m - rank])


@dataclass(frozen=True)
class Comparison:
    """Benchmarks timed in turn: comparison["ours"] is a Timing. times: µs per call by name, one number per round."""

    timings: dict[str, Timing]
    times: dict[str, list[float]]

    def __getitem__(self, name: str) -> Timing:
        if name not in self.timings:
            raise ValueError(f"benchmark must be one of {', '.join(self.timings)}, got {name!r}")
        return self.timings[name]

    def ratio(self, a: str, b: str) -> Ratio:
        """The Ratio of time(a) / time(b), computed per round, so that drift affects both; below 1, a is faster.

        ValueError for an unknown name, or fewer than 6 rounds.
        """
        self[a], self[b]
        return Ratio.of([x / y for x, y in zip(self.times[a], self.times[b], strict=True)])


def compare(benchmarks: Mapping[str, Timed], *, samples: int = 50) -> Comparison:
    """Time benchmarks in turn, one sample of each per round. Each round begins with the next benchmark.

    Clocks and temperature drift while a program runs; interleaving exposes all benchmarks to the same drift. A
    Benchmark that was timed before is not prepared again: it replays the calls captured then, over the same buffers.
    ValueError without benchmarks or for fewer than 6 samples; NoGpu on the simulator.
    """
    _check_samples(samples, 6)
    if not benchmarks:
        raise ValueError("benchmarks must be at least one, got none")
    prepared = {name: s if isinstance(s, Benchmark) else Benchmark(s) for name, s in benchmarks.items()}
    with graphs.on_stream():
        for benchmark in prepared.values():
            if not benchmark.rounds:
                benchmark.prepare()
        times = _interleaved(prepared, samples)
    return Comparison({name: benchmark.timing(times[name]) for name, benchmark in prepared.items()}, times)


def _interleaved(benchmarks: Mapping[str, Any], rounds: int) -> dict[str, list[float]]:
    names = list(benchmarks)
    times: dict[str, list[float]] = {name: [] for name in names}
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(benchmarks[name].sample())
    return times
