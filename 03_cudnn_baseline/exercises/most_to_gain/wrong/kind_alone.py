# expect: the factor is that of the whole network: the other kinds
def most_to_gain(steps):
    """How many times faster the network becomes if the steps of one kind run at their floor: {kind: factor}.

    steps: tuples (kind, count, us, floor_us): so often, a step of this kind takes so long now, and cannot take less
    than so long. A kind may have several tuples. A step that is measured below its floor (it was in a cache) stays as
    it is. The other kinds stay as they are.
    """
    now, least = {}, {}
    for kind, count, us, floor_us in steps:
        now[kind] = now.get(kind, 0.0) + count * us
        least[kind] = least.get(kind, 0.0) + count * min(us, floor_us)
    return {kind: now[kind] / least[kind] for kind in now}
