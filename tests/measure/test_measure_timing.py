"""Timing: statistics, what a sample is made of, turns. The GPU here is a clock; test_measure_timing_gpu.py has one."""

import functools
import math

import numpy as np
import pytest
from fake_gpu import GRAPH_LAUNCH_US, FakeGpu
from hypothesis import given
from hypothesis import strategies as st

from common import cuda
from common.cuda import graphs
from common.cuda.graphs import NoGpu
from common.measure import timing
from common.measure.timing import Benchmark, Comparison, Ratio, Timing


@pytest.fixture
def gpu(monkeypatch):
    fake = FakeGpu()
    monkeypatch.setattr(graphs, "gpu", lambda: fake)
    monkeypatch.setattr(graphs, "_torch", lambda: None)
    for name in ("_stream", "_quiet_stream"):
        monkeypatch.setattr(graphs, name, functools.cache(getattr(graphs, name).__wrapped__))
    return fake


# ---- Statistics


@given(st.lists(st.floats(0.01, 1e7), min_size=5, max_size=80))
def test_percentiles_ascend_and_lie_within_the_samples(times):
    t = Timing.of(times)
    assert min(times) <= t.p5_us <= t.median_us <= t.p95_us <= max(times)
    assert t.samples == len(times)


def test_percentiles_of_known_samples():
    t = Timing.of(list(range(101)), calls=7, launch="eager", mode="rotating")
    assert (t.p5_us, t.median_us, t.p95_us) == (5, 50, 95)
    assert (t.samples, t.calls, t.launch, t.mode) == (101, 7, "eager", "rotating")
    assert type(t.median_us) is float


def coverage(m):
    """(the rank of the interval's lower end, the probability that it holds the median), straight from the binomial."""

    def fewer_than(rank):
        return sum(math.comb(m, j) for j in range(rank)) / 2**m

    rank = max(rank for rank in range(1, m // 2 + 1) if fewer_than(rank) <= 0.025)
    return rank, 1 - 2 * fewer_than(rank)


@pytest.mark.parametrize("m", [6, 7, 9, 20, 50, 201])
def test_the_interval_is_that_of_the_order_statistics(m):
    shuffled = np.random.default_rng(m).permutation(m) + 1
    ratio = Ratio.of(shuffled)
    rank, probability = coverage(m)
    assert (ratio.low, ratio.high) == (rank, m + 1 - rank)
    assert ratio.median == (m + 1) / 2
    assert probability >= 0.95


def test_known_ranks():
    # tables of the sign test: n = 10 → 2nd and 9th, n = 20 → 6th and 15th, n = 50 → 18th and 33rd
    assert {m: coverage(m)[0] for m in (6, 10, 20, 50)} == {6: 1, 10: 2, 20: 6, 50: 18}


@pytest.mark.parametrize("m", [6, 20])
def test_the_interval_holds_the_true_median_as_often_as_it_says(m):
    random = np.random.default_rng(5)
    draws = random.lognormal(0.0, 0.4, (4000, m))  # skewed; the median is 1
    hits = np.mean([r.low <= 1 <= r.high for r in map(Ratio.of, draws)])
    expected = coverage(m)[1]
    assert abs(hits - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)


def test_too_few_ratios_have_no_interval():
    with pytest.raises(ValueError, match="a 95 % interval needs at least 6 ratios, got 5"):
        Ratio.of([1, 1, 1, 1, 1])


def test_ratios_are_those_of_the_rounds():
    # the rounds slow down tenfold, and a takes twice as long as b in each
    b = [float(2**i) for i in range(8)]
    comparison = Comparison({}, {"a": [2 * t for t in b], "b": b})
    comparison.timings.update(a=Timing.of(comparison.times["a"]), b=Timing.of(b))
    assert comparison.ratio("a", "b") == Ratio(2.0, 2.0, 2.0)
    assert comparison.ratio("b", "a").median == 0.5
    assert comparison["b"].median_us == 12.0
    for asked in (lambda: comparison["c"], lambda: comparison.ratio("a", "c")):
        with pytest.raises(ValueError, match="benchmark must be one of a, b, got 'c'"):
            asked()


# ---- One call


@pytest.fixture
def host(gpu, monkeypatch):
    """The host's clock is the GPU's, and a launch takes the host 7 µs."""
    slept = []
    monkeypatch.setattr(timing, "perf_counter", lambda: gpu.clock / 1e6)
    monkeypatch.setattr(timing, "sleep", lambda seconds: slept.append(seconds))
    monkeypatch.setattr(timing, "evict", gpu.kernel(30.0, "evict"))
    return slept


def test_a_lone_call_is_one_call_after_an_idle_gap(gpu, host):
    made = timing.compare({"a": timing.Lone(gpu.kernel(50.0)), "b": timing.Lone(gpu.kernel(100.0))}, samples=6)
    a = made["a"]
    assert (a.median_us, a.samples, a.calls, a.mode, a.launch) == (pytest.approx(50.0), 6, 1, "lone", "eager")
    assert made.ratio("b", "a").median == pytest.approx(2.0)
    assert set(host) == {timing.IDLE_US / 1e6} and len(host) == gpu.log.count(("launch", ""))
    assert ("event",) not in gpu.log


def test_a_lone_call_of_another_runtime_is_waited_for(gpu, host):
    waits = []
    lone = timing.Lone(gpu.kernel(50.0), wait=lambda: waits.append(gpu.clock))
    assert lone.sample() == pytest.approx(50.0) and lone.timing([50.0] * 6).launch == "host"
    assert waits[-1] - waits[-2] == 50.0


def test_a_cold_call_comes_right_behind_the_eviction_and_is_timed_alone(gpu, host):
    cold = timing.Cold(gpu.kernel(50.0, "call"))
    cold.prepare()
    gpu.log.clear()
    assert cold.sample() == pytest.approx(50.0)
    enqueued = [entry for entry in gpu.log if entry != ("device",)]
    assert enqueued == [("launch", "evict"), ("event",), ("launch", "call"), ("event",)] and host == []
    assert cold.timing([1.0] * 6).mode == "cold"


# ---- Refusals


def nothing():
    pass


@pytest.mark.parametrize(
    "call",
    [
        lambda: timing.time(nothing),
        lambda: timing.time(nothing, launch="host", wait=nothing),
        lambda: timing.compare({"a": nothing}),
        lambda: graphs.capture(nothing),
        lambda: timing.rotations(1000),
        lambda: Benchmark(nothing).prepare(),
        lambda: Benchmark(nothing).sample(),
        lambda: timing.Lone(nothing).sample(),
        lambda: timing.Cold(nothing).sample(),
        lambda: timing.evict(),
        lambda: graphs.on_stream().__enter__(),
    ],
)
def test_the_simulator_is_not_timed_and_says_why(monkeypatch, call):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    with pytest.raises(NoGpu) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    for words in ("loops on a processor", "nothing about a GPU", "06_optimize/results", "python -m common doctor"):
        assert words in message


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: timing.time(nothing, samples=4), ValueError, "samples must be at least 5, got 4"),
        (lambda: timing.compare({"a": nothing}, samples=5), ValueError, "samples must be at least 6, got 5"),
        (lambda: timing.compare({}), ValueError, "benchmarks must be at least one, got none"),
        (lambda: Benchmark([]), ValueError, "calls must be a callable or a sequence of at least one, got none"),
        (lambda: Benchmark([nothing, 3]), TypeError, "calls must be callable, got int"),
        (lambda: Benchmark(nothing, "cuda"), ValueError, "launch must be one of graph, eager, host, got 'cuda'"),
        (lambda: Benchmark(nothing, "host"), ValueError, "wait must be a callable with launch='host', got None"),
        (
            lambda: Benchmark(nothing, "graph", nothing),
            ValueError,
            "wait must be None with launch='graph', got <",
        ),
        (lambda: timing.rotations(0), ValueError, "bytes_of_one_set must be at least 1, got 0"),
    ],
)
def test_nonsense_is_refused_in_words(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


# ---- A sample, on a GPU that is a clock


def test_a_graph_is_filled_until_a_sample_is_long_enough(gpu):
    subject = Benchmark(gpu.kernel(4.0))
    subject.prepare()
    nodes = gpu.graphs[-1].nodes
    assert len(nodes) == subject.rounds and 200 <= GRAPH_LAUNCH_US + sum(nodes) < 300
    # the launch of the graph is shared by all its calls
    assert subject.sample() == pytest.approx(4.0 + GRAPH_LAUNCH_US / subject.rounds)


def test_a_graph_is_not_filled_for_ever(gpu):
    t = timing.time(gpu.kernel(0.5))
    assert t.calls == 200 and t.median_us == pytest.approx(0.5 + GRAPH_LAUNCH_US / 200)


def test_a_long_call_is_one_sample(gpu):
    t = timing.time(gpu.kernel(5000.0), samples=9)
    assert (t.calls, t.samples, t.launch, t.mode) == (1, 9, "graph", "hot")


def test_one_call_is_timed_after_it_has_been_compiled(gpu):
    times = iter([900.0, 7.0])
    assert timing.once(gpu.kernel(lambda: next(times))) == pytest.approx(7.0)
    assert gpu.log.count(("launch", "")) == 2 and gpu.graphs == []


def test_rotating_calls_take_turns(gpu):
    t = timing.time([gpu.kernel(2.0), gpu.kernel(4.0), gpu.kernel(6.0)])
    rounds = len(gpu.graphs[-1].nodes) // 3
    assert t.mode == "rotating" and gpu.graphs[-1].nodes == [2.0, 4.0, 6.0] * rounds
    assert t.median_us == pytest.approx(4.0 + GRAPH_LAUNCH_US / (3 * rounds))


def test_more_sets_than_the_limit_are_one_round(gpu):
    assert timing.time([gpu.kernel(1.0)] * 300).calls == 300


def test_a_replay_goes_before_the_events(gpu):
    subject = Benchmark(gpu.kernel(300.0))
    subject.prepare()
    gpu.log.clear()
    subject.sample()
    assert [entry[0] for entry in gpu.log if entry[0] != "device"] == ["replay", "event", "replay", "event"]


def test_eager_calls_stand_between_the_events(gpu):
    subject = Benchmark([gpu.kernel(500.0, "a"), gpu.kernel(700.0, "b")], "eager")
    subject.prepare()
    assert gpu.graphs == [] and subject.rounds * 1200 >= 5000
    gpu.log.clear()
    assert subject.sample() == pytest.approx(600.0)
    launched = [entry for entry in gpu.log if entry[0] != "device"]
    assert launched == [("launch", "b"), ("event",), *[("launch", "a"), ("launch", "b")] * subject.rounds, ("event",)]


def test_host_time_is_the_wall_clocks(gpu, monkeypatch):
    now, pending, waits = [0.0], [], []

    def wait():
        now[0] += sum(pending)
        pending.clear()
        waits.append(now[0])

    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])
    t = timing.time(lambda: pending.append(0.002), launch="host", wait=wait, samples=5)
    assert t.calls == 3 and t.launch == "host"
    assert t.median_us == pytest.approx(2000.0)
    assert waits and not pending


def test_something_warms_up_before_the_first_sample(gpu):
    subject = Benchmark(gpu.kernel(250.0))
    subject.prepare()
    assert gpu.clock >= timing.WARM_UP_US


def test_what_was_prepared_is_compared_again_as_it_is(gpu):
    once, other = Benchmark(gpu.kernel(40.0)), Benchmark(gpu.kernel(60.0))
    timing.compare({"once": once, "other": other}, samples=6)
    graphs, rounds = len(gpu.graphs), once.rounds
    again = timing.compare({"once": once, "other": other}, samples=6)
    assert len(gpu.graphs) == graphs and again["once"].calls == once.rounds == rounds
    assert again["other"].median_us == pytest.approx(60.0 + GRAPH_LAUNCH_US / other.rounds)


def test_the_warm_up_is_bounded(gpu):
    subject = Benchmark(gpu.kernel(10_000_000.0), "eager")
    subject.prepare()
    assert sum(entry[0] == "launch" for entry in gpu.log) < 12


@pytest.mark.parametrize("launch", ["graph", "eager"])
def test_calls_that_launch_nothing_are_refused(gpu, launch):
    with pytest.raises(ValueError, match=r"a call took 0\.\d+ µs, less than any kernel does: it launches nothing"):
        timing.time(nothing, launch=launch)


def test_samples_differ_as_the_calls_do(gpu):
    values = iter(np.tile([100.0, 200.0, 300.0, 400.0, 10_000.0], 10_000))
    t = timing.time(gpu.kernel(lambda: next(values)), launch="eager", samples=40)
    assert t.p5_us < t.median_us < t.p95_us


# ---- Streams and graphs


def test_work_goes_on_a_stream_that_can_be_captured(gpu):
    null = gpu.streams[0]
    with graphs.on_stream() as outer:
        assert outer.ptr and gpu.streams[-1] is outer
        with graphs.on_stream() as inner:
            assert inner is outer
    assert gpu.streams == [null]
    # inputs are waited for before, results after
    assert gpu.log == [("device",), ("device",)]
    with graphs.on_stream() as again:
        assert again is outer


def test_the_callers_stream_is_kept(gpu):
    with gpu.cuda.Stream() as mine, graphs.on_stream() as stream:
        assert stream is mine
    assert gpu.log == []


def test_capture_runs_the_call_once_before(gpu):
    graph = graphs.capture(gpu.kernel(5.0))
    assert gpu.clock == 5.0 and gpu.graphs[0].nodes == [5.0]
    graph.launch()
    assert gpu.clock == 10.0 + GRAPH_LAUNCH_US


def test_memory_of_a_graph_is_its_own(gpu):
    seen = []
    graph = graphs.capture(lambda: seen.append(gpu.allocators[-1]))
    (pool,) = gpu.pools
    assert seen == [pool.malloc] * 2 and gpu.allocators == [None]
    assert graph._memory == (pool,)


class Broken(Exception):
    pass


def test_an_error_while_capturing_ends_the_capture(gpu):
    calls = []

    def call():
        calls.append(1)
        if len(calls) == 2:
            raise Broken

    with graphs.on_stream() as stream:
        with pytest.raises(Broken):
            graphs.capture(call)
        assert stream.captured is None
        graphs.capture(gpu.kernel(1.0))
    assert gpu.graphs[-1].nodes == [1.0]


def test_a_record_runs_nothing_and_waits_for_no_stream(gpu):
    seen = []

    def call():
        seen.append((gpu.streams[-1], gpu.allocators[-1]))
        gpu.kernel(5.0)()

    graph = graphs.record(call)
    assert gpu.clock == 0.0 and gpu.graphs[0].nodes == [5.0] and ("device",) not in gpu.log
    ((stream, allocator),) = seen
    assert stream.non_blocking and allocator == gpu.pools[0].malloc and gpu.allocators == [None]
    assert stream not in gpu.streams
    graph.launch()
    assert gpu.clock == 5.0 + GRAPH_LAUNCH_US


def test_an_error_while_recording_ends_the_capture(gpu):
    def broken():
        raise Broken

    with pytest.raises(Broken):
        graphs.record(broken)
    graphs.record(gpu.kernel(1.0))
    assert [graph.nodes for graph in gpu.graphs][-1] == [1.0] and len(gpu.streams) == 1


def test_what_cannot_be_captured_says_so(gpu):
    with graphs.on_stream() as stream:
        with pytest.raises(RuntimeError, match="cudaErrorStreamCaptureUnsupported"):
            graphs.capture(stream.synchronize)
        assert stream.captured is None


def test_both_libraries_get_the_same_stream(gpu, monkeypatch):
    entered, left = [], []

    class Entered:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            entered.append(self.stream)

        def __exit__(self, *_):
            left.append(self.stream)

    class Cuda:
        ExternalStream = staticmethod(lambda ptr: ("external", ptr))
        stream = Entered

    monkeypatch.setattr(graphs, "_torch", lambda: type("torch", (), {"cuda": Cuda}))
    with graphs.on_stream() as stream:
        assert entered == [("external", stream.ptr)] and not left
    assert left == entered


# ---- Turns


class Scripted(Benchmark):
    """Says when it is asked; its times rise with every sample of anyone."""

    def __init__(self, name, log):
        super().__init__(nothing)
        self.name, self.log = name, log

    def prepare(self):
        self.rounds = 1
        self.log.append(f"prepare {self.name}")

    def sample(self):
        self.log.append(self.name)
        return float(len(self.log))


def test_subjects_take_turns_and_nobody_is_always_first(gpu):
    log = []
    comparison = timing.compare({name: Scripted(name, log) for name in "abc"}, samples=7)
    assert log[:3] == ["prepare a", "prepare b", "prepare c"]
    rounds = ["".join(log[3 + 3 * i : 6 + 3 * i]) for i in range(7)]
    assert rounds == ["abc", "bca", "cab", "abc", "bca", "cab", "abc"]
    assert comparison.times["b"] == [5.0, 7.0, 12.0, 14.0, 16.0, 21.0, 23.0]
    assert comparison["b"].median_us == 14.0 and comparison["b"].samples == 7


def test_compare_takes_callables_and_subjects(gpu):
    comparison = timing.compare(
        {"a": gpu.kernel(300.0), "b": Benchmark(gpu.kernel(600.0), "eager"), "c": [gpu.kernel(900.0)] * 2}, samples=6
    )
    assert [comparison[name].launch for name in "abc"] == ["graph", "eager", "graph"]
    assert [comparison[name].mode for name in "abc"] == ["hot", "hot", "rotating"]
    ratio = comparison.ratio("a", "c")
    assert ratio.low == ratio.median == ratio.high == pytest.approx(303 / 901.5, rel=1e-3)


# ---- Rotating buffers


@pytest.mark.parametrize(("size", "sets"), [(1, 2 * 60 * 2**20 + 1), (60 * 2**20, 3), (120 * 2**20, 2), (10**9, 2)])
def test_sets_are_together_more_than_twice_the_cache(gpu, size, sets):
    assert timing.rotations(size) == sets
    assert sets * size > 2 * 60 * 2**20


@given(st.integers(1, 2**40), st.integers(1, 2**28))
def test_the_fewest_sets_that_are(size, l2):
    sets = timing._rotations(size, l2)
    assert sets >= 2 and sets * size > 2 * l2
    assert sets == 2 or (sets - 1) * size <= 2 * l2


def test_this_machine_is_what_the_tests_think():
    if cuda.backend() == "gpu":
        pytest.skip("there is a GPU: test_measure_timing_gpu.py times it")
    with pytest.raises(NoGpu):
        timing.time(nothing)
