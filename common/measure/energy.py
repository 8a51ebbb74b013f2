"""Energy an inference: millijoules an image, from the card's own energy counter (NVML).

    measured = measure({"ours": Workload(ours, images=256), "cudnn": Workload(cudnn, images=256)})
    measured["ours"].mj_per_image, .low, .high      above idle: what the inferences add to a card that waits
    measured["ours"].gross                          everything the board took meanwhile, idle power and all

What is measured is the board: GPU, memory, voltage converters. The host's processor is not part of it.

How. The counter holds the millijoules since the driver was loaded and changes about ten times a second, so a single
call cannot be seen. Each workload runs for `seconds` (10 and more) without a pause, with work lying ahead in the queue,
after a warm-up that lasts until its clocks are steady. Time is taken where the counter changes, not where it is
read: from one change to another both energy and time are known, and what is left open at the two ends is the
millisecond between two looks. That is noted as `open`. Idle power is measured in the same way, before, between and
after the rounds, with the same programs and contexts on the card. A round runs every workload once. The order of the
first round is drawn at random, the second round has it turned round, the third has one drawn anew, and so on: any two
run in both relative orders within two rounds, so no one always runs on the card that a certain other one has heated.

Of a round: mJ an image = (energy − idle power · time) / images. Over the rounds: the median; `low` and `high` are the
lowest and the highest round, moved apart by what the ends of the stretch and the two idle measurements around it leave
open. It is the range of what was seen, not a confidence interval.

Why not add up power readings? On A100 and H100 a reading stands for a quarter of the time: the sensor is read for 25 of
every 100 ms (Z. Yang, K. Adamek, W. Armour, "Part-time Power Measurements: nvidia-smi's Lack of Attention", SC '24,
arXiv 2312.02741), and later readings are averages of the last second. What happens in between is not seen. The driver
does not say how its counter comes about; work that is the same all the time is measured right by either, which is one
more reason for long, uninterrupted runs. Where there is no counter, or it does not move, power readings are integrated,
and the result says so: `method`, `word`.
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
LEAST_SECONDS = 2.0  # twenty changes of the counter
SETTLE = 3.0  # s after work until the power is that of idleness: readings may be averages of a second
WARM_UP, LONGEST_WARM_UP = 2.0, 6.0  # s
STEADY = 0.02  # the mean clock of a second may differ by so much from that of the second before
STUCK = 2.0  # s without a change: the counter does not count
POLL = 0.001  # s between two looks at the counter, where a change is waited for
LOOK = 0.25  # s between two looks at clocks and throttling
POWER_PERIOD = 0.02  # s between two power readings that are integrated
CHUNK = 0.02  # s of work between two marks
AHEAD = 3  # chunks in the queue
MOST_CALLS = 10_000  # in a chunk
DISAGREE = 0.15  # between the counter's mean power and the readings', before a note is made of it


class Unmetered(RuntimeError):
    """The energy of this card cannot be measured, or its counter cannot be believed; one line says why."""


class Machine(Protocol):
    """All that is asked of the card and the clock; tests put a simulated card in its place."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Lets that much time pass on the host."""

    def energy_j(self) -> float | None:
        """The counter: joules since the driver was loaded; None where there is none."""

    def read(self) -> dict[str, float | None]:
        """What environment.Sensors.read gives."""

    def mark(self) -> Callable[[], bool]:
        """Marks the end of what lies in the queue now; called, it says whether the card has come so far."""


class Card:
    """The current GPU. NoGpu on the simulator, Unmetered without NVML."""

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
    """What is measured: a call that enqueues one inference of `images` pictures on the current stream.

    mark: as Machine.mark, for a runtime with streams of its own. TypeError if `call` is not callable, ValueError if
    `images` is not an integer of at least 1.
    """

    call: Callable[[], Any]
    images: int
    mark: Callable[[], Callable[[], bool]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise TypeError(f"call must be callable, got {type(self.call).__name__}")
        if not isinstance(self.images, int) or self.images < 1:
            raise ValueError(f"images must be an integer of at least 1, got {self.images!r}")


# ---- What came of it


@dataclass(frozen=True)
class Stretch:
    """From one change of the counter to another."""

    joules: float
    seconds: float

    @property
    def watts(self) -> float:
        """The mean power, W."""
        return self.joules / self.seconds


@dataclass(frozen=True)
class Round:
    """One workload in one round: its stretch, the images in it, and idle power before and after the round, in W.

    open: the share of the images of which it is not known whether they were in the stretch, since the two changes of
    the counter and the ends of calls are known to the millisecond only.
    seen: clocks in MHz, power readings in W, temperature and throttling, as environment.Watch.summary gives them.
    notes: what was out of order, a sentence each.
    """

    stretch: Stretch
    images: float
    open: float
    idle_w: tuple[float, float]
    seen: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def _mj(self, joules: float) -> float:
        return 1e3 * joules / self.images

    @property
    def gross(self) -> float:
        """mJ an image with idle power."""
        return self._mj(self.stretch.joules)

    @property
    def net(self) -> float:
        """mJ an image above idle power, the mean of before and after."""
        return self.gross - self._mj(statistics.fmean(self.idle_w) * self.stretch.seconds)

    @property
    def net_range(self) -> tuple[float, float]:
        """The least and the most that `net` may be, by the uncertain ends and by idle power before and after."""
        less, more = (self._mj(watts * self.stretch.seconds) for watts in (max(self.idle_w), min(self.idle_w)))
        u = self.open
        return self.gross * (1 - u) - less * (1 + u), self.gross * (1 + u) - more * (1 - u)


@dataclass(frozen=True)
class Energy:
    """mJ an image of one workload: `mj_per_image`, `low` and `high` above idle power, `gross` with it."""

    rounds: tuple[Round, ...]

    @property
    def mj_per_image(self) -> float:
        """The median over the rounds."""
        return statistics.median(r.net for r in self.rounds)

    @property
    def low(self) -> float:
        """mJ: the lower end of the lowest round's range."""
        return min(r.net_range[0] for r in self.rounds)

    @property
    def high(self) -> float:
        """mJ: the upper end of the highest round's range."""
        return max(r.net_range[1] for r in self.rounds)

    @property
    def gross(self) -> float:
        """The median over the rounds."""
        return statistics.median(r.gross for r in self.rounds)

    @property
    def gross_range(self) -> tuple[float, float]:
        """The lowest and the highest round, moved apart by their uncertain ends."""
        return min(r.gross * (1 - r.open) for r in self.rounds), max(r.gross * (1 + r.open) for r in self.rounds)

    @property
    def watts(self) -> float:
        """The board's mean power while it works, the median over the rounds."""
        return statistics.median(r.stretch.watts for r in self.rounds)

    @property
    def idle_w(self) -> float:
        """The mean of the idle powers before and after, the median over the rounds."""
        return statistics.median(statistics.fmean(r.idle_w) for r in self.rounds)

    @property
    def seconds(self) -> float:
        """Of all rounds together."""
        return sum(r.stretch.seconds for r in self.rounds)

    @property
    def images(self) -> int:
        """Of all rounds together."""
        return round(sum(r.images for r in self.rounds))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was out of order in any round, each once."""
        return tuple(dict.fromkeys(note for r in self.rounds for note in r.notes))

    @property
    def sm_mhz(self) -> list[float] | None:
        """The least, median and most clock of all rounds (the median of their medians); None where it is not known."""
        seen = [r.seen["sm_mhz"] for r in self.rounds if "sm_mhz" in r.seen]
        if not seen:
            return None
        return [min(s[0] for s in seen), statistics.median(s[1] for s in seen), max(s[2] for s in seen)]

    @property
    def throttle(self) -> list[str]:
        """NVML's reasons for a clock below the highest in any round."""
        return list(dict.fromkeys(reason for r in self.rounds for reason in r.seen.get("throttle", ())))


@dataclass(frozen=True)
class Measured:
    """Subjects measured together: measured["ours"] is an Energy.

    method: "counter" or "power"; word: why it is not the counter, else empty. seed: that the orders were drawn with;
    orders: who ran after whom, round by round. idle: W before the first round, between the rounds, after the last one.
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
    """The counter changed to `joules` at some time between `before` and `after`."""

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
        """Sees now and then that it does not go backwards."""
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
        """The next change; `step()` is called between two looks. Unmetered if there is none for STUCK seconds."""
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
    """Power readings, integrated by trapezoids."""

    method = "power"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._joules = 0.0
        self._last: tuple[float, float] | None = None  # s, W

    def look(self) -> None:
        """Takes a reading, if it is time for one."""
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
        """A reading taken now."""
        step()
        now = self._take()
        return _Edge(now, now, self._joules)


def _gauge(machine: Machine) -> tuple[_Counter | _Power, str]:
    """The counter, if it counts; else power readings, and why. Unmetered with neither of them."""
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


def _stretch(
    machine: Machine, gauge: _Counter | _Power, seconds: float, step: Callable[[], None]
) -> tuple[_Edge, _Edge]:
    """Two edges, at least that many seconds apart."""
    first = gauge.edge(step)
    while machine.now() - first.after < seconds:
        step()
        gauge.look()
    last = gauge.edge(step)
    if last.joules <= first.joules:
        raise Unmetered(f"no energy was counted in {last.at - first.at:.1f} s")
    return first, last


def _idle(machine: Machine, gauge: _Counter | _Power, seconds: float) -> float:
    """Watts of the card with nothing to do."""
    machine.sleep(SETTLE)
    first, last = _stretch(machine, gauge, seconds, lambda: machine.sleep(POLL))
    return (last.joules - first.joules) / (last.at - first.at)


# ---- Keeping the card busy


def _chunk(machine: Machine, workload: Workload) -> int:
    """How many calls take CHUNK seconds. ValueError if calls take less time than a kernel does."""
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
    """Enqueues a workload's calls, AHEAD chunks in advance, and notes how many were done when."""

    def __init__(self, machine: Machine, workload: Workload, chunk: int) -> None:
        self._machine, self._workload, self._size = machine, workload, chunk
        self._mark = workload.mark or machine.mark
        self._ahead: deque[tuple[Callable[[], bool], int]] = deque()
        self._enqueued = 0
        self._collected = machine.now()
        # how many calls were done: not yet at the time of `_early`, by the time of `_late`
        self._calls, self._early, self._late = [0], [self._collected], [self._collected]
        self.looks: list[dict[str, float | None]] = []
        self._looked = self._collected
        self.fresh()

    def fresh(self) -> None:
        """Forgets the looks and the waits for the host."""
        self.looks.clear()
        self.waits = 0

    def step(self) -> None:
        """About POLL seconds of enqueuing, or of sleep where enough lies ahead; now and then a look at the clocks."""
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
        """Enqueues no more, and waits until everything is done."""
        if self._enqueued % self._size:
            self._ahead.append((self._mark(), self._enqueued))
        while self._ahead:
            self._machine.sleep(POLL)
            self._collect()

    def done(self, edge: _Edge) -> tuple[float, float]:
        """The least and the most calls that may have been done at an edge, interpolated between marks."""
        least, most = np.interp(edge.before, self._late, self._calls), np.interp(edge.after, self._early, self._calls)
        return float(least), float(most)


def _warm_up(machine: Machine, feeder: _Feeder) -> str:
    """Works until the clock of the last second is that of the second before; a note if it does not come to that."""
    began, a_second = machine.now(), round(1 / LOOK)
    while True:
        feeder.step()
        passed = machine.now() - began
        clocks = [mhz for look in feeder.looks if (mhz := look.get("sm_mhz")) is not None]
        if passed >= WARM_UP and not clocks:
            return ""  # the card does not say
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
    """The round of a workload that runs without a pause, once idle power before and after it is known."""
    feeder = _Feeder(machine, workload, chunk)
    notes = [_warm_up(machine, feeder)]
    feeder.fresh()
    first, last = _stretch(machine, gauge, seconds, feeder.step)
    seen = environment.summary(feeder.looks)
    if feeder.waits:
        notes.append("the card waited for the host")
    feeder.drain()
    stretch = Stretch(last.joules - first.joules, last.at - first.at)
    readings = seen.get("power_w")
    if gauge.method == "counter" and readings and abs(stretch.watts / readings[1] - 1) > DISAGREE:
        notes.append(f"the counter says {stretch.watts:.0f} W, the power readings {readings[1]:.0f} W")
    (start_least, start_most), (end_least, end_most) = feeder.done(first), feeder.done(last)
    least, most = end_least - start_most, end_most - start_least
    calls, noted = (least + most) / 2, tuple(note for note in notes if note)
    return lambda idle: Round(stretch, workload.images * calls, (most - least) / 2 / calls, idle, seen, noted)


# ---- All together


def orders(names: Sequence[str], rounds: int, draw: random.Random) -> list[tuple[str, ...]]:
    """Who runs after whom: for each round a tuple with every name once.

    The first order is drawn, the second is the first turned round, the third is drawn anew, and so on. So in rounds 1
    and 2, and in each two after them, any two names run once in either relative order.
    """
    made: list[tuple[str, ...]] = []
    while len(made) < rounds:
        order = tuple(draw.sample(names, len(names)))
        made += [order, order[::-1]]
    return made[:rounds]


def duration(
    workloads: int, seconds: float = SECONDS, rounds: int = ROUNDS, idle_seconds: float = IDLE_SECONDS
) -> float:
    """How many seconds `measure` takes, about: not the time that the calls need to compile."""
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
    """Energy an image of every workload, as this module says at its beginning; nothing else may use the card.

    seconds: of each workload in each round, at the least; idle_seconds: of idleness before, between and after. seed: of
    the orders; drawn if not given. machine: the current GPU unless another is given. log: gets a line for each step.
    ValueError without workloads, for fewer than LEAST_SECONDS or 2 rounds; NoGpu on the simulator; Unmetered where
    there is no way to know, and when the counter goes back or stops.
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
