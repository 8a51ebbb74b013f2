import math

from common.check import expect, expect_error
from common.check.trials import python_random


def changes_of(counter):
    return [i for i in range(1, len(counter)) if counter[i] != counter[i - 1]]


def between(times, counter, launches, batch, idle_w, first, last):
    joules = (counter[last] - counter[first]) / 1e3 - idle_w * (times[last] - times[first])
    return 1e3 * joules / (batch * (launches[last] - launches[first]))


def mistakes(times, counter, launches, batch, idle_w):
    """{what a mistake gives: the hint that it deserves}."""
    changes = changes_of(counter)
    first, last = changes[0], changes[-1]
    energy, seconds = counter[last] - counter[first], times[last] - times[first]
    images = batch * (launches[last] - launches[first])
    net = energy - 1e3 * idle_w * seconds
    arguments = times, counter, launches, batch, idle_w
    before = "launches that were done before the first change belong to energy that is not counted"
    return {
        energy / images: "idle power is not subtracted: the card would have taken it anyway",
        (energy - idle_w * seconds) / images: "W · s are joules, the counter has millijoules",
        net / images / 1e3: "that is joules, mJ are asked for",
        between(*arguments, 0, -1): (
            "what the first and the last look show is up to a step old: begin and end at changes"
        ),
        (energy - 1e3 * idle_w * (times[-1] - times[0])) / images: (
            "idle power is taken off for the whole time, the energy is that between two changes"
        ),
        net / (batch * (launches[-1] - launches[0])): (
            "launches before the first change and after the last took energy that is not counted"
        ),
        net / (batch * launches[last]): before,
        net / (launches[last] - launches[first]): "a launch is `batch` images",
        between(*arguments, 0, last): "the first look is no change: nobody knows how old its value is",
        between(*arguments, first, -1): "the last look shows a value that is up to a step old",
        between(*arguments, first - 1, last - 1): (
            "just before a change the counter is as old as it gets, just then it is new"
        ),
    }


def looks(draw):
    """Looks at a card of constant power, which begin and end somewhere between two changes."""
    watts, idle_w, launch = draw.uniform(300, 700), draw.uniform(50, 120), draw.uniform(1e-3, 5e-3)
    began, offset = draw.randint(10**6, 10**12), draw.randint(5, 10**7)
    times, counter, launches = [], [], []
    now, due = draw.uniform(0, 50), 0.0
    start = now
    due = now + draw.uniform(0.05, 0.1)
    shown = began
    for _ in range(draw.choice([40, 80, 600])):
        if now >= due:
            shown, due = began + round(1e3 * watts * (now - start)), now + draw.uniform(0.08, 0.12)
        times.append(now)
        counter.append(shown)
        launches.append(offset + int((now - start) / launch))
        now += draw.uniform(0.009, 0.013)
    if counter[-1] != counter[-2]:  # the last look is to be no change
        return looks(draw)
    return times, counter, launches, draw.choice([1, 8, 32, 256, 5000]), idle_w


def check(energy_per_image):
    def compare(case, what):
        times, counter, launches, batch, idle_w = case
        got = energy_per_image(list(times), list(counter), list(launches), batch, idle_w)
        first, *_, last = changes_of(counter)
        hint = "from the first look with a new value to the last such look: energy, seconds, launches"
        if isinstance(got, int | float):
            hint = next((h for value, h in mistakes(*case).items() if math.isclose(got, value, rel_tol=1e-9)), hint)
        expect(got, between(*case, first, last), what=what, hint=hint, rtol=1e-9)

    times = [0.00, 0.04, 0.08, 0.12, 0.16, 0.20, 0.24, 0.28, 0.32]
    counter = [70_000, 70_000, 92_000, 92_000, 92_000, 138_000, 138_000, 174_000, 174_000]
    launches = [3, 13, 23, 33, 43, 53, 63, 73, 83]
    compare((times, counter, launches, 16, 100.0), f"energy_per_image({times}, {counter}, {launches}, 16, 100.0)")
    two = [70_000, 92_000, 92_000, 92_000, 92_000, 92_000, 92_000, 92_000, 138_000]
    compare((times, two, launches, 16, 100.0), f"energy_per_image({times}, {two}, {launches}, 16, 100.0)")
    large = [2**53 + 2 * value + 1 for value in counter]
    many = [10**9 + 10**6 * done for done in launches]
    compare((times, large, many, 100_000, 0.0), f"energy_per_image({times}, {large}, {many}, 100000, 0.0)")
    compare((times, counter, launches, 1, 5000.0), f"energy_per_image({times}, {counter}, {launches}, 1, 5000.0)")

    draw = python_random()
    for _ in range(20):
        case = looks(draw)
        compare(case, f"energy_per_image({', '.join(map(str, case))})")

    still = [70_000] * len(times)
    hint = "a counter that never changes tells nothing, not even 0: the card may have none that counts"
    call = "energy_per_image(times, [70000, 70000, …], launches, 16, 100.0)"
    expect_error(ValueError, lambda: energy_per_image(times, still, launches, 16, 100.0), what=call, hint=hint)
    once = [70_000] * 4 + [92_000] * (len(times) - 4)
    hint = "one change has a moment and no duration"
    call = "energy_per_image(times, [70000, …, 92000, …], launches, 16, 100.0)"
    expect_error(ValueError, lambda: energy_per_image(times, once, launches, 16, 100.0), what=call, hint=hint)
    back = [*counter[:5], 60_000, 60_000, 180_000, 180_000]
    hint = "the counter goes back: a driver was loaded anew, or it is another card's"
    call = "energy_per_image(times, [70000, …, 92000, 60000, …], launches, 16, 100.0)"
    expect_error(ValueError, lambda: energy_per_image(times, back, launches, 16, 100.0), what=call, hint=hint)
