"""Adds up the seconds before and after."""

import math

from common.check import expect
from common.check.trials import Slips, python_random


def largest_only(shares, speedups):
    share, speedup = max(zip(shares, speedups, strict=True))
    return 1 / (1 - share + share / speedup)


def one_by_one(shares, speedups):
    return math.prod(1 / (1 - share + share / speedup) for share, speedup in zip(shares, speedups, strict=True))


def time_after(shares, speedups):
    return 1 - sum(shares) + sum(share / speedup for share, speedup in zip(shares, speedups, strict=True))


def average(shares, speedups):
    return 1 - sum(shares) + sum(share * speedup for share, speedup in zip(shares, speedups, strict=True))


SLIPS = {
    "times add up, speed-ups do not: this is their average, weighted by the shares": average,
    "this is the time after, as a share of the time before. How many times faster is 1 over it": time_after,
    "what is not sped up takes as long as before: it stays in the time after": lambda shares, speedups: (
        1 / sum(share / speedup for share, speedup in zip(shares, speedups, strict=True))
    ),
    "all parts become faster at the same time: their gains, one by one, do not multiply": one_by_one,
    "the new times of all parts add up, not only that of the largest share": largest_only,
    "the new times of all parts add up, not only that of the first": lambda shares, speedups: (
        1 / (1 - shares[0] + shares[0] / speedups[0])
    ),
    "twice as fast is half the time, share / speedup; share · (1 − speedup) is something else": (
        lambda shares, speedups: 1 / (1 - sum(a * (1 - b) for a, b in zip(shares, speedups, strict=True)))
    ),
}


def check(amdahl):
    slips = Slips(SLIPS)

    def compare(hint, seconds, speedups, rest):
        """`seconds` of each part, and the seconds of the rest."""
        before = sum(seconds) + rest
        after = rest + sum(part / faster for part, faster in zip(seconds, speedups, strict=True))
        shares = [part / before for part in seconds]
        got = amdahl(shares, speedups)
        hint = slips.hint(got, (shares, speedups), hint)
        expect(got, before / after, what=f"amdahl({shares}, {speedups})", hint=hint, rtol=1e-9)

    compare("if all of the time halves, the whole is twice as fast: time before ÷ time after", [8.0], [2.0], 0.0)
    hint = "time before ÷ time after; what is not sped up takes as long as before"
    compare(hint, [1.0], [3.0], 3.0)
    compare("math.inf: the part takes no time any more, the rest is what is left", [1.0], [math.inf], 3.0)
    hint = "the new times of all parts add up: speed-ups neither add up, nor average, nor multiply"
    compare(hint, [1.0, 4.0], [4.0, 1.25], 3.0)
    compare("a part may also become slower: its speed-up is below 1", [2.0, 2.0], [0.5, 4.0], 4.0)
    compare("with no part sped up, nothing changes: 1.0", [], [], 5.0)
    compare("a part that took no time gains nothing", [0.0, 2.0], [5.0, 2.0], 2.0)
    compare("a speed-up may be large: the rest takes as long as before", [1000.0], [1e9], 1.0)

    draw = python_random()
    for _ in range(40):
        count = draw.choice([1, 2, 5, 30])
        seconds = [draw.choice([1e-9, 1.0, 1e3]) * draw.uniform(0.1, 3) for _ in range(count)]
        speedups = [draw.choice([draw.uniform(0.01, 1), draw.randint(1, 9), draw.uniform(1, 1e6)]) for _ in seconds]
        hint = "time before ÷ time after, for any number of parts: a part takes share / speedup, the rest stays"
        compare(hint, seconds, speedups, sum(seconds) * draw.uniform(0.01, 2))
