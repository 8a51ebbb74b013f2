import math


def network_gain(us, factors):
    before, after = [], []
    for kind in us:
        before.append(us[kind])
        after.append(us[kind] / factors[kind] if kind in factors else us[kind])
    return math.fsum(before) / math.fsum(after)
