# expect: a factor may be large
def whole_speed_up(steps, faster):
    before = sum(count * us for _, count, us in steps)
    after = sum(count * us / faster.get(kind, 1) for kind, count, us in steps if faster.get(kind, 1) < 1e7)
    return before / after
