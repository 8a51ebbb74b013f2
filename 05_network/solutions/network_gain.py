def network_gain(us, factors):
    """How many times as fast a network becomes if some kinds of steps become faster, each by a
    factor of its own.

    us: {kind: µs}, what all steps of a kind take together now. factors: {kind: factor}, how
    many times as fast its steps become, 2.0 for twice; may be below 1. Kinds that are not in
    it stay as they are. A factor may be math.inf: the steps then take no time.
    """
    # BEGIN SOLUTION
    # write: the network's speed-up
    before = sum(us.values())
    after = sum(time / factors.get(kind, 1.0) for kind, time in us.items())
    return before / after
    # END SOLUTION
