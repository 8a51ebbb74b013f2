import math

from common.check import expect, require
from common.check.trials import python_random


def wanted(ours, theirs):
    both = [batch for batch in ours if ours[batch] and theirs.get(batch)]
    if not both:
        return None, 0
    logarithms = [math.log(min(theirs[batch]) / min(ours[batch])) for batch in both]
    return math.exp(sum(logarithms) / len(both)), len(both)


def check(mean_speed_up):
    def compare(ours, theirs, hint):
        got = mean_speed_up({b: list(us) for b, us in ours.items()}, {b: list(us) for b, us in theirs.items()})
        expect(got, wanted(ours, theirs), what=f"mean_speed_up({ours}, {theirs})", hint=hint, rtol=1e-9)

    compare({1: [10.0]}, {1: [20.0]}, "we take half as long, so we are twice as fast: their time over ours")
    hint = "of each engine the fastest way counts, the least time: neither their first one nor their mean"
    compare({1: [10.0]}, {1: [40.0, 20.0, 60.0]}, hint)
    hint = "ours has several ways too, and the fastest of them counts"
    compare({1: [30.0, 10.0]}, {1: [20.0]}, hint)

    ours, theirs = {1: [10.0], 256: [1000.0]}, {1: [40.0], 256: [1000.0]}
    got = mean_speed_up(ours, theirs)
    hint = "the mean of 4 and 1 as ratios is 2, as 2 · 2 = 4 · 1: the geometric one"
    if isinstance(got, tuple) and got and isinstance(got[0], float):
        if math.isclose(got[0], 2.5):
            hint = "2.5 is the arithmetic mean: exchange ours and theirs, and it says 0.625, not 1 / 2.5"
        elif math.isclose(got[0], 1040 / 1010):
            hint = "a ratio of sums is that of the largest batch: every batch is to count as much as any other"
        elif math.isclose(got[0], 1.6):
            hint = "1.6 is the harmonic mean: exchange ours and theirs, and it says 0.4, not 1 / 1.6"
        elif math.isclose(got[0], 4.0):
            hint = "the product of the ratios has its n-th root to come"
    expect(got, (2.0, 2), what=f"mean_speed_up({ours}, {theirs})", hint=hint, rtol=1e-9)

    hint = "a batch without a time of one of them counts for nobody, neither as a victory nor as a tie"
    compare({1: [10.0], 8: [10.0]}, {1: [30.0]}, hint)
    compare({1: [10.0]}, {1: [30.0], 8: [10.0]}, hint)
    hint = "an empty list is no time either: nobody ran that batch"
    compare({1: [10.0], 8: [5.0]}, {1: [30.0], 8: []}, hint)
    compare({1: [10.0], 8: []}, {1: [30.0], 8: [5.0]}, hint)
    compare({1: [10.0], 8: [], 32: []}, {1: [30.0], 8: [], 256: [4.0]}, hint)
    hint = "nothing to compare gives (None, 0): an empty mean is no number"
    compare({}, {1: [30.0]}, hint)
    compare({1: [10.0]}, {8: [30.0]}, hint)

    draw = python_random()
    batches = [1, 2, 3, 8, 32, 33, 256, 5000, 10**6, 7, 9, 11]
    for number in (1, 2, 4, 4, 12) * 8:
        scale = 10.0 ** draw.randint(-6, 6)
        times = [
            {
                b: [scale * 10.0 ** draw.uniform(-2, 2) for _ in range(draw.randint(0, 5))]
                for b in draw.sample(batches, number)
            }
            for _ in "ab"
        ]
        compare(
            *times, "(the geometric mean, over the batches that both have, of their least time over ours, how many)"
        )
        one, other = mean_speed_up(*times), mean_speed_up(*reversed(times))
        inverse = one[0] is None or math.isclose(one[0] * other[0], 1, rel_tol=1e-9)
        require(inverse, what="exchanged, the ratio is not 1 / ratio", hint="the fastest way of each, batch by batch")
