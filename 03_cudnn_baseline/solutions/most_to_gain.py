def most_to_gain(steps):
    """How many times faster the network becomes if the steps of one kind run at their floor:
    {kind: factor}.

    steps: tuples (kind, count, us, floor_us): so often, a step of this kind takes so long now,
    and cannot take less than so long. A kind may have several tuples. A step that is measured
    below its floor (it was in a cache) stays as it is. The other kinds stay as they are.
    """
    # BEGIN SOLUTION
    # write: a dict from kind to the network's speed-up
    total = sum(count * us for _, count, us, _ in steps)
    gain = dict.fromkeys((kind for kind, *_ in steps), 0.0)
    for kind, count, us, floor_us in steps:
        gain[kind] += count * max(0.0, us - floor_us)
    return {kind: total / (total - saved) for kind, saved in gain.items()}
    # END SOLUTION
