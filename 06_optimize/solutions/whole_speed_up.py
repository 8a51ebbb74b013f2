def whole_speed_up(steps, faster):
    """How many times faster the network becomes if the steps of some kinds become faster.

    steps: tuples (kind, count, us): so many steps of this kind take so long each. A kind may
    have several tuples. faster: {kind: factor}, so many times faster the steps of that kind
    become; a factor may be below 1, for a change that costs something, and math.inf for a step
    that is gone. Kinds that are not in it stay as they are.
    """
    # BEGIN SOLUTION
    # write: the network's speed-up
    before = sum(count * us for _, count, us in steps)
    after = sum(count * us / faster.get(kind, 1) for kind, count, us in steps)
    return before / after
    # END SOLUTION
