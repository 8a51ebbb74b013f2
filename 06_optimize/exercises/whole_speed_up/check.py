import math

from common.check import expect
from common.check.trials import Slips, python_random


def time(steps, faster=None, counts=True):
    return sum((count if counts else 1) * us / (faster or {}).get(kind, 1) for kind, count, us in steps)


SLIPS = {
    "the time of all steps before, over the time of all steps after, not after over before": lambda steps, faster: (
        time(steps, faster) / time(steps)
    ),
    "us is the time of one step, and there are `count` of them": lambda steps, faster: (
        time(steps, counts=False) / time(steps, faster, counts=False)
    ),
    "how many times faster, not the share of the time that is saved": lambda steps, faster: (
        1 - time(steps, faster) / time(steps)
    ),
    "how many times faster, not by how many per cent": lambda steps, faster: (
        100 * (time(steps) / time(steps, faster) - 1)
    ),
    "all steps count, before and after: kinds that are not in `faster` as well": lambda steps, faster: (
        time([step for step in steps if step[0] in faster])
        / time([step for step in steps if step[0] in faster], faster)
    ),
    "kinds that are not in `faster` stay as they are: their time counts after, too": lambda steps, faster: (
        time(steps) / time([step for step in steps if step[0] in faster], faster)
    ),
    "times add up, speed-ups do not: this is an average of the factors": lambda steps, faster: (
        sum(count * us * faster.get(kind, 1) for kind, count, us in steps) / time(steps)
    ),
    "a factor below 1 makes a step slower, and then the network": lambda steps, faster: (
        time(steps) / time(steps, {kind: max(1, factor) for kind, factor in faster.items()})
    ),
}


def check(whole_speed_up):
    slips = Slips(SLIPS)

    def compare(steps, faster, hint):
        before = sum(count * us for _, count, us in steps)
        after = sum(count * us / faster.get(kind, 1) for kind, count, us in steps)
        what = f"whole_speed_up({steps}, {faster})"
        got = whole_speed_up(list(steps), dict(faster))
        hint = slips.hint(got, (steps, faster), hint)
        expect(got, before / after, what=what, hint=hint, rtol=1e-9)

    whole = "the factor is the time of all steps before, over the time of all steps after"
    compare([("expand", 1, 30.0), ("depthwise", 1, 10.0)], {"depthwise": 2}, whole)
    often = "us is the time of one step, and there are `count` of them"
    compare([("expand", 16, 3.0), ("depthwise", 17, 2.0)], {"expand": 3}, often)
    same = "kinds that are not in `faster` stay as they are: their factor is 1"
    compare([("stem", 1, 5.0), ("expand", 2, 4.0), ("pool", 1, 1.0)], {"expand": 4}, same)
    compare([("expand", 2, 4.0), ("expand", 3, 2.0), ("stem", 1, 6.0)], {"expand": 2}, "a kind may have several tuples")
    gone = "a step that is math.inf times faster takes no time"
    compare([("add", 10, 1.5), ("expand", 1, 30.0)], {"add": math.inf}, gone)
    slower = "a factor below 1 makes a step slower, and then the network"
    compare([("expand", 1, 8.0), ("depthwise", 1, 8.0)], {"expand": 4, "depthwise": 0.5}, slower)

    draw = python_random()
    kinds = ["stem", "expand", "depthwise", "project", "head", "linear"]
    compare([("expand", 1, 8.0)], {}, "no kind becomes faster: 1.0")
    hint = "a factor may be large: the other steps are what is left"
    compare([("expand", 3, 1e9), ("stem", 1, 1.0)], {"expand": 1e10}, hint)
    hint = "count · us of all steps, over the same with each kind's time divided by its factor, 1 where there is none"
    for number in (1, 2, 12, 12, 70) * 8:
        scale = 10.0 ** draw.randint(-6, 6)
        counts = [1, 17, 5000]
        steps = [(draw.choice(kinds), draw.choice(counts), scale * draw.uniform(0.5, 40)) for _ in range(number)]
        factors = {kind: 10.0 ** draw.uniform(-3, 6) for kind in draw.sample([*kinds, "", "other"], draw.randint(0, 6))}
        compare([*steps, draw.choice(steps)], factors, hint)
