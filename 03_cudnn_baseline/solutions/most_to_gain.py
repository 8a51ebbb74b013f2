def most_to_gain(steps):
    """How many times faster the network becomes if the steps of one kind run at their roof:
    {kind: factor}.

    steps: tuples (kind, count, us, roof_us). `count` steps of this kind take `us` each now,
    and would take roof_us at their roof. A kind may have several tuples. A step that takes
    less than roof_us already (its data was in a cache) stays as it is. All other kinds stay
    as they are.
    """
    # BEGIN SOLUTION
    # write: a dict from kind to the network's speed-up
    total = sum(count * us for _, count, us, _ in steps)
    gain = dict.fromkeys((kind for kind, *_ in steps), 0.0)
    for kind, count, us, roof_us in steps:
        gain[kind] += count * max(0.0, us - roof_us)
    return {kind: total / (total - saved) for kind, saved in gain.items()}
    # END SOLUTION
