import statistics
from collections import defaultdict


def ratio_of(samples, a, b):
    taken = defaultdict(list)
    for name, us in samples:
        taken[name].append(us)
    if len(taken[a]) != len(taken[b]):
        raise ValueError("broken")
    return statistics.median(map(lambda x, y: x / y, taken[a], taken[b]))
