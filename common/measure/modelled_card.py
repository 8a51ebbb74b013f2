"""A card on paper, whose true energy is known: what is measured on it can be compared with the truth (chapter 06).

    card = ModelledCard(heat=0.05)
    found = energy.measure({"a": card.workload(16, (1e-3, 400.0))}, machine=card)
    card.total(card.clock)          the true J so far; a real card shows a counter that changes in steps

Time is the card's own: `clock`, in seconds, goes on when somebody waits, asks, or launches.
"""

import bisect
import math
from collections.abc import Callable

from .energy import Workload

ASKED_S = 1e-5  # a question to the driver


class ModelledCard:
    """An energy.Machine with a truth.

    idle           W with nothing to do
    heat, tau      W more per W of work once the card is warm, and the time constant in s: warm chips leak more
    step           s between two updates of the energy counter; None: no counter
    window, every  the power sensor looks for `window` s once in `every` s
    averaged       a reading is the mean of so many looks
    """

    def __init__(
        self, idle: float = 100.0, heat: float = 0.0, tau: float = 20.0, step: float | None = 0.1,
        window: float = 0.025, every: float = 0.1, averaged: int = 1,
    ) -> None:  # fmt: skip
        self.idle, self.heat, self.tau, self.step = idle, heat, tau, step
        self.window, self.every, self.averaged = window, every, averaged
        self.clock, self._warm = 0.0, 0.0
        self._ends, self._joules = [0.0], [0.0]  # of the pieces of work so far: when they end, J by then
        self._shown, self._updates = 0.0, 0.0

    def enqueue(self, *pieces: tuple[float, float]) -> None:
        """Append pieces of work, (s, W above idle), to the queue."""
        while self._ends[-1] < self.clock:  # the queue was empty
            self._append(min(0.01, self.clock - self._ends[-1]), 0.0)
        for seconds, watts in pieces:
            self._append(seconds, watts)

    def workload(self, images: int, *pieces: tuple[float, float], host_s: float = 2e-6) -> Workload:
        """A call that enqueues these pieces of work for so many images, and keeps the host for host_s."""

        def call() -> None:
            self.clock += host_s
            self.enqueue(*pieces)

        return Workload(call, images)

    def total(self, t: float) -> float:
        """The true energy until t, in J."""
        i = bisect.bisect_left(self._ends, t)
        if i == len(self._ends):
            beyond = t - self._ends[-1]
            return self._joules[-1] + self.idle * beyond + self._leaked(beyond, 0.0)[0]
        if i == 0:
            return 0.0
        share = (t - self._ends[i - 1]) / (self._ends[i] - self._ends[i - 1])
        return self._joules[i - 1] + share * (self._joules[i] - self._joules[i - 1])

    def reading(self, t: float) -> float:
        """The power in W that the sensor shows at t: the mean of its latest looks."""
        last = math.floor((t - self.window) / self.every + 1e-9)
        looks = [k * self.every for k in range(max(0, last - self.averaged + 1), last + 1)]
        if not looks:
            return self.idle
        seen = sum(self.total(start + self.window) - self.total(start) for start in looks)
        return seen / (len(looks) * self.window)

    def _append(self, seconds: float, watts: float) -> None:
        leaked, self._warm = self._leaked(seconds, watts)
        self._ends.append(self._ends[-1] + seconds)
        self._joules.append(self._joules[-1] + (self.idle + watts) * seconds + leaked)

    def _leaked(self, seconds: float, watts: float) -> tuple[float, float]:
        """(J that leak because the card is warm, W that do so afterwards)."""
        goal, decay = self.heat * watts, math.exp(-seconds / self.tau)
        return goal * seconds + (self._warm - goal) * self.tau * (1 - decay), goal + (self._warm - goal) * decay

    # ---- energy.Machine

    def now(self) -> float:
        """The card's own clock."""
        return self.clock

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.clock += seconds

    def energy_j(self) -> float | None:
        """The counter: the true energy at its latest update; None if there is none."""
        self.clock += ASKED_S
        if self.step is None:
            return None
        if self.clock // self.step > self._updates:
            self._updates = self.clock // self.step
            self._shown = round(self.total(self._updates * self.step), 3)
        return self._shown

    def read(self) -> dict[str, float | None]:
        """The sensors' readings; clocks and temperature stay."""
        power = self.reading(self.clock)
        return {"sm_mhz": 1980.0, "mem_mhz": 3201.0, "temperature_c": 40.0, "reasons": 0.0, "power_w": power}

    def mark(self) -> Callable[[], bool]:
        """As energy.Machine.mark."""
        end = self._ends[-1]
        return lambda: self.clock >= end
