from collections import defaultdict


def whole_speed_up(steps, faster):
    time = defaultdict(float)
    for kind, count, us in steps:
        time[kind] += count * us
    return sum(time.values()) / sum(us / faster.get(kind, 1.0) for kind, us in time.items())
