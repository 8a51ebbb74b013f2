# expect: with a large factor
def network_gain(us, factors):
    after = sum(0.0 if factors.get(kind, 1) > 1e6 else time / factors.get(kind, 1) for kind, time in us.items())
    return sum(us.values()) / after
