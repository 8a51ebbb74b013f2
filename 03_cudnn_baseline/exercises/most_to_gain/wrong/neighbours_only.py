# expect: a kind's tuples belong together
from itertools import groupby


def most_to_gain(steps):
    total = sum(count * us for _, count, us, _ in steps)
    factors = {}
    for kind, group in groupby(steps, key=lambda step: step[0]):
        gain = sum(count * max(0.0, us - floor) for _, count, us, floor in group)
        factors[kind] = total / (total - gain)
    return factors
