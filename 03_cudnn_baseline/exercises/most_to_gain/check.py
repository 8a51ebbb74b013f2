import random

from common.check import expect


def reference(steps):
    total, saved = 0.0, {}
    for kind, count, us, floor in steps:
        total += count * us
        saved[kind] = saved.get(kind, 0.0) + count * max(0.0, us - floor)
    return {kind: total / (total - gain) for kind, gain in saved.items()}


def check(most_to_gain):
    def compare(steps, hint, what=None):
        expect(most_to_gain(steps), reference(steps), what=what or f"most_to_gain({steps})", hint=hint, rtol=1e-9)

    compare([("expand", 1, 4.0, 2.0)], "if all of the time halves, the network is twice as fast: before over after")
    hint = "the others stay: the time of the whole network now, over its time with this kind at its floor"
    compare([("expand", 1, 4.0, 2.0), ("project", 1, 12.0, 3.0)], hint)
    compare([("expand", 3, 4.0, 2.0), ("project", 1, 12.0, 3.0)], "a step that occurs `count` times counts so often")
    hint = "a kind's tuples belong together: all of them go to their floors at once"
    compare([("expand", 1, 4.0, 2.0), ("project", 1, 12.0, 3.0), ("expand", 2, 8.0, 1.0)], hint)
    hint = "a step that is below its floor already stays as it is: it does not become slower"
    compare([("expand", 1, 4.0, 6.0), ("project", 1, 12.0, 3.0)], hint)
    hint = "below the floor, each step by itself: what one cannot gain is not taken off another"
    compare([("expand", 1, 2.0, 6.0), ("expand", 1, 12.0, 3.0), ("head", 1, 5.0, 1.0)], hint)

    draw = random.Random()
    for _ in range(20):
        kinds = draw.choices(["expand", "depthwise", "project"], k=draw.randint(1, 8))
        steps = [(kind, draw.randint(1, 4), draw.uniform(2, 9), draw.uniform(1, 8)) for kind in kinds]
        compare(steps, "any steps", f"most_to_gain of {len(steps)} random steps")
