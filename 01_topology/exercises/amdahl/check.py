"""Adds up the seconds before and after."""

import math
import random

from common.check import expect


def check(amdahl):
    def compare(hint, seconds, speedups, rest):
        """`seconds` of each part, and the seconds of the rest."""
        before = sum(seconds) + rest
        after = rest + sum(part / faster for part, faster in zip(seconds, speedups, strict=True))
        shares = [part / before for part in seconds]
        shown = f"amdahl({[round(share, 3) for share in shares]}, {speedups})"
        got = amdahl(shares, speedups)
        mean = rest / before + sum(share * faster for share, faster in zip(shares, speedups, strict=True))
        if rest and got is not None and math.isfinite(mean) and math.isclose(got, mean):
            hint = "times add up, speed-ups do not: this is their average, weighted by the shares"
        expect(got, before / after, what=shown, hint=hint, rtol=1e-9)

    compare("if all of the time halves, the whole is twice as fast: time before ÷ time after", [8.0], [2.0], 0.0)
    hint = "what is not sped up takes as long as before: it stays in the time after"
    compare(hint, [1.0], [3.0], 3.0)
    compare("a part that takes no time any more: only the rest is left", [1.0], [math.inf], 3.0)
    hint = "the new times of all parts add up: speed-ups neither add up, nor average, nor multiply"
    compare(hint, [1.0, 4.0], [4.0, 1.25], 3.0)
    compare("a part may also become slower: its speed-up is below 1", [2.0, 2.0], [0.5, 4.0], 4.0)
    compare("with no part sped up, nothing changes", [], [], 5.0)

    draw = random.Random()
    for _ in range(20):
        count = draw.randint(1, 5)
        seconds = [draw.uniform(0.1, 3) for _ in range(count)]
        compare("any number of parts", seconds, [round(draw.uniform(0.5, 9), 2) for _ in seconds], draw.uniform(0.1, 3))
