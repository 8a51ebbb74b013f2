import math
import random

from common.check import expect


def check(whole_speed_up):
    def compare(steps, faster, hint):
        before = sum(count * us for _, count, us in steps)
        after = sum(count * us / faster.get(kind, 1) for kind, count, us in steps)
        what = f"whole_speed_up({steps}, {faster})"
        expect(whole_speed_up(steps, faster), before / after, what=what, hint=hint, rtol=1e-9)

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

    draw = random.Random()
    kinds = ["stem", "expand", "depthwise", "project", "head", "linear"]
    for _ in range(20):
        steps = [(draw.choice(kinds), draw.randint(1, 17), draw.uniform(0.5, 40)) for _ in range(draw.randint(1, 12))]
        compare(steps, {kind: draw.uniform(0.5, 9) for kind in draw.sample(kinds, 3)}, "any steps")
