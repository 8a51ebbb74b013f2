"""Energy per image in millijoules, from the GPU's energy counter (NVML).

    measured = measure({"ours": Workload(ours, images=256), "cudnn": Workload(cudnn, images=256)})
    measured["ours"].mj_per_image, .low, .high      above idle power: what the inferences add to an idle GPU
    measured["ours"].gross                          the whole energy of the board, idle power included

The measured energy is that of the board: GPU, memory, voltage regulators. The host's processor is not included.

Method. The counter gives the millijoules since the driver was loaded and is updated about ten times per second, so it
cannot resolve a single call. Each workload runs for `seconds` (10 or more) without a pause, with work queued ahead,
after a warm-up that lasts until the clocks are steady. An interval begins and ends at an update of the counter, not at
a read: then both its energy and its time are known, except for the millisecond between two reads at either end. This
uncertainty is reported as `open`. Idle power is measured in the same way before, between and after the rounds, with the
same programs and contexts on the card. A round runs every workload once. The order of the first round is drawn at
random, the second round reverses it, the third draws a new one, and so on: within two rounds any two workloads run in
both relative orders, so none always runs on a card that the same other one has heated.

One round gives mJ per image = (energy − idle power · time) / images. The result is the median over the rounds; `low`
and `high` are the lowest and the highest round, widened by the uncertainty of the interval's ends and by the difference
of the idle measurements before and after. This is the observed range, not a confidence interval.

Why not integrate power readings? On A100 and H100 a reading covers a quarter of the time: the sensor samples 25 of
every 100 ms (Z. Yang, K. Adamek, W. Armour, "Part-time Power Measurements: nvidia-smi's Lack of Attention", SC '24,
arXiv 2312.02741), and newer drivers report averages of the last second. The driver does not document how it computes
its counter; both methods are right for a constant load, which is one more reason for long, uninterrupted runs. Where
there is no counter, or it is not updated, power readings are integrated, and the result says so: `method`, `word`.
"""

import random
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from time import sleep as _sleep
from typing import Any, Protocol

import numpy as np

from ..cuda.graphs import gpu
from . import environment
from .timing import SHORTEST_CALL_US

SECONDS, ROUNDS, IDLE_SECONDS = 10.0, 4, 5.0  # an even number: each order and its reverse
LEAST_SECONDS = 2.0  # twenty updates of the counter
SETTLE = 3.0  # s after work until readings show idle power: they may be averages of a second
WARM_UP, LONGEST_WARM_UP = 2.0, 6.0  # s
STEADY = 0.02  # clocks are steady if the means of two successive seconds differ by at most this share
STUCK = 2.0  # s without an update after which the counter is taken to be stuck
POLL = 0.001  # s between two reads of the counter while waiting for an update
LOOK = 0.25  # s between two samples of clocks and throttling
POWER_PERIOD = 0.02  # s between two power readings, if these are integrated
CHUNK = 0.02  # s of work between two marks (events)
AHEAD = 3  # chunks queued in advance
MOST_CALLS = 10_000  # per chunk
DISAGREE = 0.15  # relative difference of the counter's mean power and the power readings that is noted


class Unmetered(RuntimeError):
    """This card's energy cannot be measured, or its counter is inconsistent; the message is one line."""


class Machine(Protocol):
    """Interface to the card and the clock; tests substitute a simulated card."""

    def now(self) -> float:
        """Seconds on a monotonic clock."""

    def sleep(self, seconds: float) -> None:
        """Wait for this time on the host."""

    def energy_j(self) -> float | None:
        """The energy counter in J since the driver was loaded; None if the card has none."""

    def read(self) -> dict[str, float | None]:
        """The sensors' readings, as environment.Sensors.read."""

    def mark(self) -> Callable[[], bool]:
        """Mark the current end of the queue. Returns a function that tells whether the card has reached the mark."""


class Card:
    """The current GPU as a Machine. NoGpu on the simulator, Unmetered without NVML."""

    def __init__(self) -> None:
        self._cupy = gpu()
        try:
            sensors = environment.Sensors()
        except RuntimeError as error:
            raise Unmetered(f"no energy without the card's sensors: {error}") from None
        self.energy_j, self.read = sensors.energy_j, sensors.read
        self.now, self.sleep = perf_counter, _sleep

    def mark(self) -> Callable[[], bool]:
        """As Machine.mark, on CuPy's current stream."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record()
        return lambda: event.done


@dataclass(frozen=True)
class Workload:
    """One workload: `call` enqueues one inference of `images` pictures on the current stream.

    mark: replaces Machine.mark for a runtime with streams of its own. TypeError if `call` is not callable, ValueError
    if `images` is not an integer of at least 1.
    """

    call: Callable[[], Any]
    images: int
    mark: Callable[[], Callable[[], bool]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise TypeError(f"call must be callable, got {type(self.call).__name__}")
        if not isinstance(self.images, int) or self.images < 1:
            raise ValueError(f"images must be an integer of at least 1, got {self.images!r}")


# ---- Results


@dataclass(frozen=True)
class Interval:
    """An interval from one update of the counter to another: its energy in J and its length in s."""

    joules: float
    seconds: float

    @property
    def watts(self) -> float:
        """The mean power in W."""
        return self.joules / self.seconds


@dataclass(frozen=True)
class Round:
    """One workload in one round.

    interval: the interval measured. images: how many were computed in it. idle_w: idle power in W before and after.
    open: half the uncertainty of `images`, as a share of them: updates of the counter and ends of calls are known to
    the millisecond only.
    sensors: clocks in MHz, power readings in W, temperature in °C and throttling, as environment.summary returns them.
    notes: irregularities, one sentence each.
    """

    interval: Interval
    images: float
    open: float
    idle_w: tuple[float, float]
    sensors: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def _mj(self, joules: float) -> float:
        return 1e3 * joules / self.images

    @property
    def gross(self) -> float:
        """mJ per image, idle power included."""
        return self._mj(self.interval.joules)

    @property
    def net(self) -> float:
        """mJ per image above idle power, the mean of the measurements before and after."""
        return self.gross - self._mj(statistics.fmean(self.idle_w) * self.interval.seconds)

    @property
    def net_range(self) -> tuple[float, float]:
        """Bounds of `net`, in mJ: from the uncertain number of images, and from idle power before and after."""
        less, more = (self._mj(watts * self.interval.seconds) for watts in (max(self.idle_w), min(self.idle_w)))
        u = self.open
        return self.gross * (1 - u) - less * (1 + u), self.gross * (1 + u) - more * (1 - u)


@dataclass(frozen=True)
class Energy:
    """mJ per image of one workload: `mj_per_image`, `low` and `high` above idle power, `gross` including it."""

    rounds: tuple[Round, ...]

    @property
    def mj_per_image(self) -> float:
        """mJ per image above idle power, the median over the rounds."""
        return statistics.median(r.net for r in self.rounds)

    @property
    def low(self) -> float:
        """mJ per image: the lowest lower bound of a round."""
        return min(r.net_range[0] for r in self.rounds)

    @property
    def high(self) -> float:
        """mJ per image: the highest upper bound of a round."""
        return max(r.net_range[1] for r in self.rounds)

    @property
    def gross(self) -> float:
        """mJ per image, idle power included, the median over the rounds."""
        return statistics.median(r.gross for r in self.rounds)

    @property
    def gross_range(self) -> tuple[float, float]:
        """mJ per image: the lowest and the highest round, widened by the uncertain number of images."""
        return min(r.gross * (1 - r.open) for r in self.rounds), max(r.gross * (1 + r.open) for r in self.rounds)

    @property
    def watts(self) -> float:
        """The board's mean power in W during work, the median over the rounds."""
        return statistics.median(r.interval.watts for r in self.rounds)

    @property
    def idle_w(self) -> float:
        """Idle power in W: the mean of before and after, then the median over the rounds."""
        return statistics.median(statistics.fmean(r.idle_w) for r in self.rounds)

    @property
    def seconds(self) -> float:
        """Measured time of all rounds together, in s."""
        return sum(r.interval.seconds for r in self.rounds)

    @property
    def images(self) -> int:
        """How many images all rounds together computed in the measured time."""
        return round(sum(r.images for r in self.rounds))

    @property
    def notes(self) -> tuple[str, ...]:
        """The irregularities of all rounds, each once."""
        return tuple(dict.fromkeys(note for r in self.rounds for note in r.notes))

    @property
    def sm_mhz(self) -> list[float] | None:
        """SM clock of all rounds in MHz: minimum, median of the medians, maximum; None if it is not reported."""
        clocks = [r.sensors["sm_mhz"] for r in self.rounds if "sm_mhz" in r.sensors]
        if not clocks:
            return None
        return [min(c[0] for c in clocks), statistics.median(c[1] for c in clocks), max(c[2] for c in clocks)]

    @property
    def throttle(self) -> list[str]:
        """NVML's reasons for a clock below the maximum, in any round."""
        return list(dict.fromkeys(reason for r in self.rounds for reason in r.sensors.get("throttle", ())))


@dataclass(frozen=True)
class Measured:
    """Workloads measured together: measured["ours"] is an Energy.

    method: "counter" or "power". word: why the counter was not used, else empty. seed: of the random orders.
    orders: the order of the workloads in each round. idle: idle power in W before the first round, between the rounds
    and after the last one.
    """

    energies: dict[str, Energy]
    method: str
    word: str
    seed: int
    orders: tuple[tuple[str, ...], ...]
    idle: tuple[float, ...]

    def __getitem__(self, name: str) -> Energy:
        if name not in self.energies:
            raise ValueError(f"workload must be one of {', '.join(self.energies)}, got {name!r}")
        return self.energies[name]


# ---- Reading energy


@dataclass(frozen=True)
class _Edge:
    """An update of the counter, to `joules`, at an unknown time between `before` and `after`, in s."""

    before: float
    after: float
    joules: float

    @property
    def at(self) -> float:
        return (self.before + self.after) / 2


class _Counter:
    """The card's energy counter."""

    method = "counter"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._highest = 0.0
        self._looked = machine.now()

    def look(self) -> None:
        """Check every LOOK seconds that the counter has not decreased. Unmetered if it has."""
        if self._machine.now() - self._looked >= LOOK:
            self._value()

    def _value(self) -> float:
        value = self._machine.energy_j()
        if value is None:
            raise Unmetered("the energy counter is there no more")
        if value < self._highest:
            raise Unmetered(f"the energy counter went backwards, from {self._highest:.3f} J to {value:.3f} J")
        self._highest, self._looked = value, self._machine.now()
        return value

    def edge(self, step: Callable[[], None]) -> _Edge:
        """Wait for the next update and call `step()` between reads. Unmetered if none comes within STUCK seconds."""
        machine = self._machine
        before = began = machine.now()
        old = self._value()
        while True:
            step()
            asked = machine.now()
            value = self._value()
            answered = machine.now()
            if value > old:
                return _Edge(before, answered, value)
            before = asked
            if answered - began > STUCK:
                raise Unmetered(f"the energy counter did not change for {STUCK:g} s, it shows {value:.3f} J")


class _Power:
    """Power readings, integrated over time by the trapezoidal rule."""

    method = "power"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._joules = 0.0
        self._last: tuple[float, float] | None = None  # s, W

    def look(self) -> None:
        """Take a reading if the last one is POWER_PERIOD old. Unmetered if there are no readings any more."""
        if self._last is None or self._machine.now() - self._last[0] >= POWER_PERIOD:
            self._take()

    def _take(self) -> float:
        watts = self._machine.read().get("power_w")
        if watts is None:
            raise Unmetered("the power readings are there no more")
        now = self._machine.now()
        if self._last is not None:
            self._joules += (now - self._last[0]) * (self._last[1] + watts) / 2
        self._last = now, watts
        return now

    def edge(self, step: Callable[[], None]) -> _Edge:
        """Take a reading now, after `step()`."""
        step()
        now = self._take()
        return _Edge(now, now, self._joules)


def _gauge(machine: Machine) -> tuple[_Counter | _Power, str]:
    """(the counter, "") if it is updated, else (power readings, the reason). Unmetered without either."""
    if machine.energy_j() is None:
        why = "the card has no energy counter"
    else:
        counter = _Counter(machine)
        try:
            counter.edge(lambda: machine.sleep(POLL))
            return counter, ""
        except Unmetered as error:
            why = str(error)
    if machine.read().get("power_w") is None:
        raise Unmetered(f"{why}, and it gives no power readings: its energy cannot be measured")
    return _Power(machine), f"{why}: power readings are integrated instead, which may see a part of the time only"


def _interval(
    machine: Machine, gauge: _Counter | _Power, seconds: float, step: Callable[[], None]
) -> tuple[_Edge, _Edge]:
    """Two edges at least `seconds` apart. Unmetered if no energy was counted between them."""
    first = gauge.edge(step)
    while machine.now() - first.after < seconds:
        step()
        gauge.look()
    last = gauge.edge(step)
    if last.joules <= first.joules:
        raise Unmetered(f"no energy was counted in {last.at - first.at:.1f} s")
    return first, last


def _idle(machine: Machine, gauge: _Counter | _Power, seconds: float) -> float:
    """Idle power of the card in W."""
    machine.sleep(SETTLE)
    first, last = _interval(machine, gauge, seconds, lambda: machine.sleep(POLL))
    return (last.joules - first.joules) / (last.at - first.at)


# ---- Keeping the card busy


def _chunk(machine: Machine, workload: Workload) -> int:
    """How many calls take CHUNK seconds. ValueError if a call takes less time than any kernel."""
    mark, calls = workload.mark or machine.mark, 1
    _wait(machine, workload, 1)  # compiles
    while True:
        began = machine.now()
        for _ in range(calls):
            workload.call()
        passed = mark()
        while not passed():
            machine.sleep(POLL / 10)
        took = machine.now() - began
        if took >= CHUNK / 2:
            return max(1, round(calls * CHUNK / took))
        if calls == MOST_CALLS:
            if took < calls * SHORTEST_CALL_US * 1e-6:
                raise ValueError(
                    f"{calls} calls took {took * 1e3:.3f} ms, less than kernels do: call enqueues nothing on the stream"
                )
            return calls
        calls = min(MOST_CALLS, 4 * calls)


def _wait(machine: Machine, workload: Workload, calls: int) -> None:
    for _ in range(calls):
        workload.call()
    passed = (workload.mark or machine.mark)()
    while not passed():
        machine.sleep(POLL)


class _Feeder:
    """Enqueues a workload's calls, AHEAD chunks in advance, and records when how many were complete."""

    def __init__(self, machine: Machine, workload: Workload, chunk: int) -> None:
        self._machine, self._workload, self._size = machine, workload, chunk
        self._mark = workload.mark or machine.mark
        self._ahead: deque[tuple[Callable[[], bool], int]] = deque()
        self._enqueued = 0
        self._collected = machine.now()
        # _calls[i] calls were complete by the time _late[i], but not yet at the time _early[i]
        self._calls, self._early, self._late = [0], [self._collected], [self._collected]
        self.looks: list[dict[str, float | None]] = []
        self._looked = self._collected
        self.fresh()

    def fresh(self) -> None:
        """Discard the sensor samples and the count of waits for the host."""
        self.looks.clear()
        self.waits = 0

    def step(self) -> None:
        """Enqueue calls for about POLL seconds, or sleep if enough is queued; every LOOK seconds sample the sensors."""
        machine = self._machine
        self._collect()
        if not self._ahead:
            self.waits += 1
        until = machine.now() + POLL
        while machine.now() < until:
            if len(self._ahead) >= AHEAD:
                machine.sleep(POLL)
                break
            self._workload.call()
            self._enqueued += 1
            if self._enqueued % self._size == 0:
                self._ahead.append((self._mark(), self._enqueued))
        if machine.now() - self._looked >= LOOK:
            self.looks.append(machine.read())
            self._looked = machine.now()
        self._collect()

    def _collect(self) -> None:
        now = self._machine.now()
        while self._ahead and self._ahead[0][0]():
            self._calls.append(self._ahead.popleft()[1])
            self._early.append(self._collected)
            self._late.append(now)
        self._collected = now

    def drain(self) -> None:
        """Wait until everything that was enqueued is complete."""
        if self._enqueued % self._size:
            self._ahead.append((self._mark(), self._enqueued))
        while self._ahead:
            self._machine.sleep(POLL)
            self._collect()

    def done(self, edge: _Edge) -> tuple[float, float]:
        """The least and the greatest number of calls complete at an edge, interpolated between marks."""
        least, most = np.interp(edge.before, self._late, self._calls), np.interp(edge.after, self._early, self._calls)
        return float(least), float(most)


def _warm_up(machine: Machine, feeder: _Feeder) -> str:
    """Run the workload until the SM clock is steady (STEADY); returns "", or a note if it does not become so."""
    began, a_second = machine.now(), round(1 / LOOK)
    while True:
        feeder.step()
        passed = machine.now() - began
        clocks = [mhz for look in feeder.looks if (mhz := look.get("sm_mhz")) is not None]
        if passed >= WARM_UP and not clocks:
            return ""  # the card does not report its clock
        if passed >= WARM_UP and len(clocks) >= 2 * a_second:
            last = statistics.fmean(clocks[-a_second:])
            before = statistics.fmean(clocks[-2 * a_second : -a_second])
            if abs(last / before - 1) <= STEADY:
                return ""
        if passed >= LONGEST_WARM_UP:
            return f"clocks were not steady after {LONGEST_WARM_UP:g} s of work"


def _work(
    machine: Machine, gauge: _Counter | _Power, workload: Workload, chunk: int, seconds: float
) -> Callable[[tuple[float, float]], Round]:
    """Run a workload without a pause. Returns a function from the idle power before and after, in W, to its Round."""
    feeder = _Feeder(machine, workload, chunk)
    notes = [_warm_up(machine, feeder)]
    feeder.fresh()
    first, last = _interval(machine, gauge, seconds, feeder.step)
    sensors = environment.summary(feeder.looks)
    if feeder.waits:
        notes.append("the card waited for the host")
    feeder.drain()
    interval = Interval(last.joules - first.joules, last.at - first.at)
    readings = sensors.get("power_w")
    if gauge.method == "counter" and readings and abs(interval.watts / readings[1] - 1) > DISAGREE:
        notes.append(f"the counter says {interval.watts:.0f} W, the power readings {readings[1]:.0f} W")
    (start_least, start_most), (end_least, end_most) = feeder.done(first), feeder.done(last)
    least, most = end_least - start_most, end_most - start_least
    calls, noted = (least + most) / 2, tuple(note for note in notes if note)
    return lambda idle: Round(interval, workload.images * calls, (most - least) / 2 / calls, idle, sensors, noted)


# ---- All workloads


def orders(names: Sequence[str], rounds: int, draw: random.Random) -> list[tuple[str, ...]]:
    """The order of the workloads in each round: one tuple per round, with every name once.

    Odd rounds have a random order, the round after each reverses it. So within rounds 1 and 2, 3 and 4, …, any two
    names run once in either relative order.
    """
    result: list[tuple[str, ...]] = []
    while len(result) < rounds:
        order = tuple(draw.sample(names, len(names)))
        result += [order, order[::-1]]
    return result[:rounds]


def duration(
    workloads: int, seconds: float = SECONDS, rounds: int = ROUNDS, idle_seconds: float = IDLE_SECONDS
) -> float:
    """Estimated time of `measure` in s, without compilation. workloads: how many."""
    return rounds * workloads * (WARM_UP + seconds + 0.5) + (rounds + 1) * (SETTLE + idle_seconds + 0.5)


def measure(
    workloads: Mapping[str, Workload],
    *,
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    idle_seconds: float = IDLE_SECONDS,
    seed: int | None = None,
    machine: Machine | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Measured:
    """Measure the energy per image of every workload by the method above; nothing else may use the card meanwhile.

    seconds: the least time of each workload in each round. idle_seconds: of each idle measurement. seed: of the orders;
    random by default. machine: by default the current GPU. log: is called with one line per step.
    ValueError without workloads, for times below LEAST_SECONDS or fewer than 2 rounds; NoGpu on the simulator;
    Unmetered if the card reports neither energy nor power, or its counter decreases or stops.
    """
    if not workloads:
        raise ValueError("workloads must be at least one, got none")
    for name, value in (("seconds", seconds), ("idle_seconds", idle_seconds)):
        if not value >= LEAST_SECONDS:
            raise ValueError(f"{name} must be at least {LEAST_SECONDS:g}, got {value}: too few changes of the counter")
    if rounds < 2:
        raise ValueError(f"rounds must be at least 2, got {rounds}: one has no interval")
    machine = machine or Card()
    seed = random.randrange(2**32) if seed is None else seed
    order_of = orders(list(workloads), rounds, random.Random(seed))
    gauge, word = _gauge(machine)
    if word:
        log(word)
    chunks = {name: _chunk(machine, workload) for name, workload in workloads.items()}

    idle = [_idle(machine, gauge, idle_seconds)]
    worked: dict[str, list[Callable[[tuple[float, float]], Round]]] = {name: [] for name in workloads}
    for number, order in enumerate(order_of, 1):
        log(f"round {number} of {rounds}, the card idles at {idle[-1]:.1f} W")
        for name in order:
            worked[name].append(_work(machine, gauge, workloads[name], chunks[name], seconds))
        idle.append(_idle(machine, gauge, idle_seconds))
    around = list(pairwise(idle))
    energies = {}
    for name, ones in worked.items():
        energies[name] = Energy(tuple(one(watts) for one, watts in zip(ones, around, strict=True)))
        if energies[name].mj_per_image <= 0:
            raise Unmetered(
                f"{name} took {energies[name].watts:.1f} W, no more than idleness, {energies[name].idle_w:.1f} W"
            )
    return Measured(energies, gauge.method, word, seed, tuple(order_of), tuple(idle))
