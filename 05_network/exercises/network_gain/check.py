import math

from common.check import expect
from common.check.trials import Slips, python_random


def time_after(us, factors):
    return sum(time / factors.get(kind, 1) for kind, time in us.items())


SLIPS = {
    "the network's time before over after, not after over before": lambda us, factors: (
        time_after(us, factors) / sum(us.values())
    ),
    "how many times as fast, not the share of the time that is saved": lambda us, factors: (
        1 - time_after(us, factors) / sum(us.values())
    ),
    "how many times as fast, not how many µs are saved": lambda us, factors: sum(us.values()) - time_after(us, factors),
    "a factor of 2.0 means half the time; it is no percentage": lambda us, factors: (
        100 * (sum(us.values()) / time_after(us, factors) - 1)
    ),
    "the other kinds stay as they are, and count before and after": lambda us, factors: (
        sum(us[kind] for kind in factors) / sum(us[kind] / factors[kind] for kind in factors)
    ),
    "the kinds that stay as they are count after as well": lambda us, factors: (
        sum(us.values()) / sum(us[kind] / factors[kind] for kind in factors)
    ),
    "the kinds become faster at the same time: their gains, one by one, do not multiply": lambda us, factors: math.prod(
        sum(us.values()) / time_after(us, {kind: factor}) for kind, factor in factors.items()
    ),
    "a factor shortens only its own kind's time: factors do not multiply": lambda us, factors: math.prod(
        factors.values()
    ),
    "speed-ups do not average: times add up": lambda us, factors: (
        sum(time * factors.get(kind, 1) for kind, time in us.items()) / sum(us.values())
    ),
    "a factor below 1 makes the network slower": lambda us, factors: (
        sum(us.values()) / time_after(us, {kind: max(1, factor) for kind, factor in factors.items()})
    ),
}


def check(network_gain):
    slips = Slips(SLIPS)

    def compare(us, factors, hint):
        want = sum(us.values()) / sum(time * (1 / factors[kind] if kind in factors else 1) for kind, time in us.items())
        got = network_gain(dict(us), dict(factors))
        hint = slips.hint(got, (us, factors), hint)
        expect(got, want, what=f"network_gain({us}, {factors})", hint=hint, rtol=1e-9)

    hint = "a factor of 2.0 means half the time: the network's time before over after is 2"
    compare({"expand": 8.0}, {"expand": 2.0}, hint)
    hint = "a factor shortens only its own kind's time; the other kinds stay as they are, and count before and after"
    compare({"expand": 4.0, "project": 12.0}, {"expand": 2.0}, hint)
    hint = "the kinds become faster at the same time: their gains do not multiply; add up the times before, and after"
    compare({"expand": 4.0, "project": 12.0}, {"expand": 2.0, "project": 3.0}, hint)
    compare({"expand": 4.0, "project": 12.0, "head": 4.0}, {"expand": 2.0, "project": 4.0}, hint)
    compare({"expand": 4.0, "project": 12.0}, {"expand": 0.5}, "a factor below 1 makes the network slower")
    hint = "with an infinite factor the kind takes no time; the others are what is left"
    compare({"expand": 4.0, "project": 12.0}, {"expand": math.inf}, hint)

    draw = python_random()
    kinds = ["stem", "expand", "depthwise", "project", "head"]
    compare({"expand": 4.0, "project": 12.0}, {}, "no kind becomes faster: 1.0")
    hint = "with a large factor the kind takes hardly any time; the others are what is left"
    compare({"expand": 1e9, "project": 1.0}, {"expand": 1e10}, hint)
    hint = "all kinds' times now, over the sum of each kind's time divided by its factor, 1 where there is none"
    for count in (1, 2, 5, 5, 40) * 8:
        scale = 10.0 ** draw.randint(-6, 6)
        known = kinds if count <= 5 else [f"{draw.choice(['', 'k', '3×3 '])}{i}" for i in range(count)]
        us = {kind: scale * draw.choice([draw.uniform(1, 99), 1e-4]) for kind in draw.sample(known, count)}
        chosen = [kind for kind in us if draw.random() < 0.6]
        draw.shuffle(chosen)
        compare(us, {kind: 10.0 ** draw.uniform(-3, 6) for kind in chosen}, hint)
