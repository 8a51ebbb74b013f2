def whole_speed_up(steps, faster):
    """How many times faster the network becomes if the steps of some kinds become faster.

    steps: tuples (kind, count, us): count steps of this kind, which take us microseconds each.
    A kind may have several tuples. faster: {kind: factor}; the steps of that kind become this
    many times faster. A factor may be below 1, for a change that costs something, and math.inf
    for steps that are gone. Kinds that are not in it stay as they are. Some time is left.
    """
    # BEGIN SOLUTION
    # write: the network's speed-up
    before = sum(count * us for _, count, us in steps)
    after = sum(count * us / faster.get(kind, 1) for kind, count, us in steps)
    return before / after
    # END SOLUTION
