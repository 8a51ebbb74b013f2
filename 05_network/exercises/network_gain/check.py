import math
import random

from common.check import expect


def check(network_gain):
    def compare(us, factors, hint, what=None):
        want = sum(us.values()) / sum(time * (1 / factors[kind] if kind in factors else 1) for kind, time in us.items())
        call = what or f"network_gain({us}, {factors})"
        expect(network_gain(us, factors), want, what=call, hint=hint, rtol=1e-9)

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

    draw = random.Random()
    kinds = ["stem", "expand", "depthwise", "project", "head"]
    for _ in range(20):
        us = {kind: draw.uniform(1, 99) for kind in draw.sample(kinds, draw.randint(1, 5))}
        factors = {kind: draw.uniform(0.3, 9) for kind in us if draw.random() < 0.6}
        compare(us, factors, "any times, any factors", f"network_gain of {len(us)} kinds, {len(factors)} factors")
