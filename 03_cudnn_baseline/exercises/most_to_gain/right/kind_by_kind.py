def most_to_gain(steps):
    def time(faster=None):
        return sum(count * (min(us, floor_us) if kind == faster else us) for kind, count, us, floor_us in steps)

    return {kind: time() / time(kind) for kind in {step[0] for step in steps}}
