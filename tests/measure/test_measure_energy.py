"""Energy an image on a simulated card: what it really takes lies within what is measured, or an error says why not."""

import itertools
import random
import sys
from types import SimpleNamespace

import pytest

from common import cuda
from common.cuda import graphs
from common.cuda.graphs import NoGpu
from common.measure import energy, environment
from common.measure.energy import Unmetered, Workload, measure


class SimulatedCard:
    """A card and a clock: work is done one call after the other, the counter changes every `period` seconds.

    idle: W; drift: W a second more, as a card that gets warm; readings: whether it gives power; counter: its value from
    the true one, None where there is none; clocks: MHz at a time; late: s that each look at the counter takes.
    """

    def __init__(self, idle=120.0, drift=0.0, period=0.1, phase=0.037, counter=lambda joules: joules, readings=True,
                 clocks=lambda t: 1980.0, reasons=0, late=2e-5, power_factor=1.0, call_s=2e-6):  # fmt: skip
        self.idle, self.drift, self.period, self.phase, self.counter = idle, drift, period, phase, counter
        self.readings, self.clocks, self.reasons, self.late = readings, clocks, reasons, late
        self.power_factor, self.call_s = power_factor, call_s
        self.clock, self.free_at = 0.0, 0.0  # now; when the card has done everything
        self.ends, self.joules, self.watts = [0.0], [0.0], [0.0]  # of work: ends of calls, joules of work by then
        self.done_calls = self.ended = 0
        self.log = []

    def work(self, name, seconds, joules):
        """A call that enqueues work of that long, which takes that many joules above idleness."""

        def call():
            self.clock += self.call_s
            start = max(self.clock, self.free_at)
            if start > self.free_at:  # nothing was done until it came
                self.ends.append(start)
                self.joules.append(self.joules[-1])
            self.free_at = start + seconds
            self.ends.append(self.free_at)
            self.joules.append(self.joules[-1] + joules)
            if not self.log or self.log[-1] != name:
                self.log.append(name)

        return call

    def total(self, t):
        """Joules until t."""
        import bisect

        i = bisect.bisect_right(self.ends, t)
        worked = self.joules[-1]
        if i < len(self.ends):
            (a, b), (x, y) = self.ends[i - 1 : i + 1], self.joules[i - 1 : i + 1]
            worked = x + (y - x) * (t - a) / (b - a)
        return 1000.0 + self.idle * t + self.drift * t * t / 2 + worked

    # what energy.Machine asks

    def now(self):
        return self.clock

    def sleep(self, seconds):
        self.clock += seconds * 1.1  # never less than asked for

    def energy_j(self):
        self.clock += self.late
        if self.counter is None:
            return None
        changed = max(0.0, (self.clock - self.phase) // self.period * self.period + self.phase)
        return self.counter(round(self.total(changed), 3))

    def read(self):
        now, before = self.clock, max(0.0, self.clock - 0.1)
        watts = (self.total(now) - self.total(before)) / max(now - before, 1e-9) if self.readings else None
        return {
            "sm_mhz": self.clocks(now), "mem_mhz": 3201.0, "temperature_c": 40.0, "reasons": self.reasons,
            "power_w": None if watts is None else watts * self.power_factor,
        }  # fmt: skip

    def mark(self):
        end = self.free_at
        return lambda: self.clock >= end


def truth(joules, images):
    return 1e3 * joules / images


# ---- The estimate


@pytest.mark.parametrize(
    ("seconds", "joules", "images"),
    [(100e-6, 0.013, 1), (2.5e-3, 1.4, 256), (19.4e-3, 9.7, 256), (0.31, 130.0, 7)],
)
def test_what_it_takes_lies_within_the_interval_and_the_interval_is_narrow(seconds, joules, images):
    card = SimulatedCard()
    found = measure({"x": Workload(card.work("x", seconds, joules), images)}, machine=card, seed=3)["x"]
    true = truth(joules, images)
    assert found.low <= true <= found.high
    assert found.mj_per_image == pytest.approx(true, rel=2e-3)
    assert found.high - found.low <= 0.01 * true
    gross = true + 1e3 * 120 * seconds / images
    assert found.gross == pytest.approx(gross, rel=2e-3)
    assert found.gross_range[0] <= gross <= found.gross_range[1]
    assert found.idle_w == pytest.approx(120, rel=1e-3) and found.watts == pytest.approx(
        120 + joules / seconds, rel=2e-3
    )
    assert 40 <= found.seconds <= 41 and found.images == pytest.approx(found.seconds / seconds * images, rel=2e-3)
    assert len(found.rounds) == 4 and found.notes == () and found.throttle == [] and found.sm_mhz == [1980] * 3


@pytest.mark.parametrize("phase", [0.0, 0.03, 0.0999])
@pytest.mark.parametrize("period", [0.02, 0.1, 0.7])
def test_when_and_how_often_the_counter_changes_does_not_matter(phase, period):
    """Cut off at the moment of reading, a stretch of 2 s would be wrong by up to 35 %."""
    card = SimulatedCard(phase=phase, period=period)
    found = measure({"x": Workload(card.work("x", 3e-3, 1.2), 8)}, seconds=2, idle_seconds=2, machine=card)["x"]
    assert found.low <= truth(1.2, 8) <= found.high
    assert found.high - found.low <= 0.02 * truth(1.2, 8)


def test_a_card_that_warms_up_widens_the_interval():
    """Idle power rises by 0.05 W a second: before and after differ, and the truth lies between them."""
    still, warm = SimulatedCard(), SimulatedCard(drift=0.05)
    a, b = (measure({"x": Workload(c.work("x", 2e-3, 0.6), 32)}, machine=c)["x"] for c in (still, warm))
    assert b.low <= truth(0.6, 32) <= b.high
    assert b.high - b.low > 2 * (a.high - a.low)
    assert b.rounds[0].idle_w[0] < b.rounds[0].idle_w[1] < b.rounds[2].idle_w[1]


def test_two_subjects_and_the_orders():
    card = SimulatedCard()
    subjects = {name: Workload(card.work(name, s, j), 4) for name, s, j in (("a", 1e-3, 0.5), ("b", 2e-3, 0.4))}
    found = measure(subjects, rounds=5, seconds=2, idle_seconds=2, machine=card, seed=11)
    assert found["a"].low <= 125 <= found["a"].high and found["b"].low <= 100 <= found["b"].high
    assert len(found.idle) == 6 and len(found.orders) == 5 and found.method == "counter" and found.word == ""
    assert found.orders == tuple(energy.orders("ab", 5, random.Random(11)))
    ran = [name for name, _ in itertools.groupby(itertools.chain("ab", *found.orders))]
    assert card.log == ran  # first each for its pace, then as the orders say
    again = SimulatedCard()
    subjects = {name: Workload(again.work(name, 1e-3, 0.5), 4) for name in "ab"}
    assert measure(subjects, rounds=5, seconds=2, idle_seconds=2, machine=again, seed=11).orders == found.orders
    with pytest.raises(ValueError, match="workload must be one of a, b, got 'c'"):
        found["c"]


@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_any_two_run_in_both_relative_orders(names, rounds):
    """Drawn each for itself, the orders of three rounds leave two names as they are for one seed in four."""
    for seed in range(300):
        found = energy.orders(names, rounds, random.Random(seed))
        assert len(found) == rounds and all(sorted(order) == list(names) for order in found)
        for first in range(0, rounds - 1, 2):
            two = found[first : first + 2]
            for a, b in itertools.combinations(names, 2):
                assert {order.index(a) < order.index(b) for order in two} == {True, False}


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
def test_orders_are_drawn_and_a_seed_gives_the_same_ones(names):
    found, again = ([tuple(energy.orders(names, 4, random.Random(seed))) for seed in range(300)] for _ in range(2))
    every = set(itertools.permutations(names))
    assert found == again
    assert {one[0] for one in found} == {one[2] for one in found} == every
    assert {one[0] == one[2] for one in found} == {True, False}  # the third is drawn anew
    names = list(names)
    energy.orders(names, 3, random.Random(0))
    assert names == sorted(names)


def test_a_seed_is_drawn_and_noted():
    def seed():
        card = SimulatedCard()
        return measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, seconds=2, idle_seconds=2, machine=card).seed

    assert seed() != seed()


def test_how_long_it_takes_is_known_beforehand():
    card = SimulatedCard()
    subjects = {name: Workload(card.work(name, 1e-3, 0.5), 4) for name in "abc"}
    measure(subjects, machine=card)
    assert card.clock == pytest.approx(energy.duration(3), rel=0.05)
    assert energy.duration(3) == pytest.approx(192.5)


def test_the_steps_are_told():
    card, lines = SimulatedCard(), []
    measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, machine=card, log=lines.append)
    assert lines == [f"round {i} of 4, the card idles at 120.0 W" for i in (1, 2, 3, 4)]


def test_the_card_never_waits_and_is_not_drained():
    card = SimulatedCard()
    feeder = energy._Feeder(card, Workload(card.work("x", 100e-6, 0.01), 1), 200)
    for _ in range(100):
        feeder.step()
    feeder.fresh()
    for _ in range(1000):
        feeder.step()
        assert 0.01 < card.free_at - card.clock < 0.09
    assert feeder.waits == 0


# ---- What is noted


def test_a_host_that_is_too_slow_is_noted():
    """The card waits: it takes idle power meanwhile, and the time that a call takes is the host's."""
    card = SimulatedCard(call_s=2e-3)
    found = measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, machine=card)["x"]
    assert found.notes == ("the card waited for the host",)
    assert found.low <= truth(0.5, 4) <= found.high


def test_throttling_and_clocks_are_noted():
    card = SimulatedCard(clocks=lambda t: 1700.0 + 200 * (int(4 * t) % 4), reasons=0x4)
    found = measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, machine=card)["x"]
    assert found.throttle == ["power cap"] and found.sm_mhz[0] == 1700 and found.sm_mhz[2] == 2300


def test_clocks_that_never_come_to_rest_are_noted():
    card = SimulatedCard(clocks=lambda t: 300.0 + 40 * t)
    found = measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, rounds=2, machine=card)["x"]
    assert found.notes == ("clocks were not steady after 6 s of work",)


def test_the_warm_up_lasts_until_the_clocks_are_steady():
    card = SimulatedCard(clocks=lambda t: min(1980.0, 345 + 400 * t))
    feeder = energy._Feeder(card, Workload(card.work("x", 1e-3, 0.5), 4), 20)
    assert energy._warm_up(card, feeder) == "" and 4.5 < card.clock < 6.5


def test_a_card_that_does_not_say_its_clocks():
    card = SimulatedCard(clocks=lambda t: None)
    found = measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, machine=card)["x"]
    assert found.sm_mhz is None and found.notes == ()


def test_readings_that_contradict_the_counter_are_noted():
    card = SimulatedCard(power_factor=1.5)
    found = measure({"x": Workload(card.work("x", 1e-3, 0.5), 4)}, machine=card)["x"]
    assert found.notes == ("the counter says 620 W, the power readings 930 W",)


# ---- Counters that cannot be believed


def test_without_a_counter_power_is_integrated_and_a_word_says_so():
    card, lines = SimulatedCard(counter=None), []
    found = measure({"x": Workload(card.work("x", 2e-3, 0.8), 16)}, machine=card, log=lines.append)
    assert found.method == "power" and found.word == lines[0]
    assert found.word.startswith("the card has no energy counter: power readings are integrated instead")
    assert found["x"].low <= 50 <= found["x"].high and found["x"].mj_per_image == pytest.approx(50, rel=5e-3)


def test_power_that_changes_is_integrated_by_trapezoids():
    seconds = [0.0]
    card = SimpleNamespace(now=lambda: seconds[0], read=lambda: {"power_w": 100 * (1 + seconds[0])})
    gauge = energy._Power(card)
    gauge.look()
    seconds[0] = 1.0
    assert gauge.edge(lambda: None).joules == 150
    seconds[0] = 3.0
    assert gauge.edge(lambda: None).joules == 150 + 600


def test_a_counter_that_stands_still_is_none():
    card = SimulatedCard(counter=lambda joules: 5.0)
    found = measure({"x": Workload(card.work("x", 2e-3, 0.8), 16)}, machine=card)
    assert found.method == "power" and found["x"].mj_per_image == pytest.approx(50, rel=5e-3)
    assert found.word.startswith("the energy counter did not change for 2 s, it shows 5.000 J: power readings")


@pytest.mark.parametrize("counter", [None, lambda joules: 5.0])
def test_with_neither_it_is_refused(counter):
    card = SimulatedCard(counter=counter, readings=False)
    with pytest.raises(Unmetered, match=r"counter.*, and it gives no power readings: its energy cannot be measured"):
        measure({"x": Workload(card.work("x", 2e-3, 0.8), 16)}, machine=card)


def test_a_counter_that_goes_backwards_is_refused():
    """In the middle of a stretch too, by less than it has grown by the stretch's end."""
    card = SimulatedCard(counter=lambda joules: joules if joules < 5000 else joules - 300)
    with pytest.raises(Unmetered, match=r"the energy counter went backwards, from 4\d\d\d\.\d+ J to 4\d\d\d\.\d+ J"):
        measure({"x": Workload(card.work("x", 2e-3, 0.8), 16)}, machine=card)


def test_a_counter_that_stops_is_refused():
    card = SimulatedCard(counter=lambda joules: min(joules, 5000.0))
    with pytest.raises(Unmetered, match=r"the energy counter did not change for 2 s, it shows 5000\.000 J"):
        measure({"x": Workload(card.work("x", 2e-3, 0.8), 16)}, machine=card)


@pytest.mark.parametrize("gone", ["counter", "readings"])
def test_what_is_there_no_more_is_refused(gone):
    card = SimulatedCard(counter=None if gone == "readings" else lambda joules: joules)
    work = card.work("x", 2e-3, 0.8)

    def call():
        work()
        if card.clock > 20:
            setattr(card, gone, None)

    with pytest.raises(
        Unmetered, match=f"the {'energy counter is' if gone == 'counter' else 'power readings are'} the"
    ):
        measure({"x": Workload(call, 16)}, machine=card)


def test_work_that_takes_no_more_than_idleness_is_refused():
    card = SimulatedCard()
    with pytest.raises(Unmetered, match=r"x took 1\d\d\.\d W, no more than idleness, 120\.0 W"):
        measure({"x": Workload(card.work("x", 2e-3, -1e-3), 16)}, machine=card)


# ---- What does not fit


def test_a_call_that_enqueues_nothing_is_refused():
    card = SimulatedCard(call_s=1e-8)
    with pytest.raises(ValueError, match=r"10000 calls took .* ms, less than kernels do: call enqueues nothing"):
        measure({"x": Workload(lambda: None, 1)}, machine=card)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 1.9}, "seconds must be at least 2, got 1.9: too few changes of the counter"),
        ({"seconds": float("nan")}, "seconds must be at least 2, got nan"),
        ({"idle_seconds": 0}, "idle_seconds must be at least 2, got 0"),
        ({"rounds": 1}, "rounds must be at least 2, got 1: one has no interval"),
    ],
)
def test_too_short_and_too_few(options, message):
    card = SimulatedCard()
    with pytest.raises(ValueError, match=message):
        measure({"x": Workload(card.work("x", 1e-3, 1.0), 1)}, machine=card, **options)


def test_wrong_subjects():
    with pytest.raises(ValueError, match="workloads must be at least one, got none"):
        measure({}, machine=SimulatedCard())
    with pytest.raises(TypeError, match="call must be callable, got int"):
        Workload(3, 1)
    with pytest.raises(ValueError, match="images must be an integer of at least 1, got 0"):
        Workload(print, 0)


# ---- The card itself


def test_on_the_simulator_there_is_nothing_to_measure(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "simulator")
    with pytest.raises(NoGpu, match="06_optimize/results"):
        measure({"x": Workload(print, 1)})


@pytest.fixture
def cupy(monkeypatch):
    events = []

    class Event:
        def __init__(self, disable_timing):
            self.done, self.recorded = False, 0
            events.append(self)

        def record(self):
            self.recorded += 1

    device = SimpleNamespace(pci_bus_id="0000:19:00.0")
    monkeypatch.setattr(cuda, "backend", lambda: "gpu")
    monkeypatch.setattr(graphs, "backend", lambda: "gpu")
    made = SimpleNamespace(cuda=SimpleNamespace(Event=Event, Device=lambda: device), events=events)
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_the_card_asks_nvml_and_cupy(cupy, monkeypatch):
    class NVMLError(Exception):
        pass

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(
        NVMLError=NVMLError, nvmlInit=lambda: None, nvmlDeviceGetHandleByPciBusId=lambda bus: bus,
        nvmlDeviceGetTotalEnergyConsumption=lambda card: 123_456_789,
    ))  # fmt: skip
    card = energy.Card()
    assert card.energy_j() == 123_456.789
    passed = card.mark()
    (event,) = cupy.events
    assert event.recorded == 1 and not passed()
    event.done = True
    assert passed()
    before = card.now()
    card.sleep(0.002)
    assert card.now() - before >= 0.002

    def unsupported(card):
        raise NVMLError("Not Supported")

    sys.modules["pynvml"].nvmlDeviceGetTotalEnergyConsumption = unsupported
    assert energy.Card().energy_j() is None


def test_without_nvml_it_says_how_to_get_it(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unmetered, match=r"^no energy without the card's sensors: pynvml is not installed: pip install"):
        energy.Card()


def test_the_summary_of_looks_is_that_of_a_watch():
    looks = [{"sm_mhz": 1980.0, "power_w": 300.0, "reasons": 0x4}, {"sm_mhz": 1965.0, "power_w": None, "reasons": 0}]
    assert environment.summary(looks) == {
        "sm_mhz": [1965, 1972.5, 1980],
        "power_w": [300] * 3,
        "throttle": ["power cap"],
    }
    assert environment.summary([]) == {}
