from itertools import product

from common.check import expect, require
from common.check.trials import python_random


def time_of(steps, changes, layouts):
    us, now = 0.0, "NCHW"
    for step, change, layout in zip([*steps, {"NCHW": 0.0}], changes, [*layouts, "NCHW"], strict=True):
        us, now = us + (now != layout) * change + step[layout], layout
    return us


def least(steps, changes):
    best = {"NCHW": 0.0}
    for step, change in zip([*steps, {"NCHW": 0.0}], changes, strict=True):
        best = {to: min(us + (to != now) * change for now, us in best.items()) + step[to] for to in step}
    return best["NCHW"]


def fastest_each(steps, changes):
    return [min(step, key=step.get) for step in steps]


def one_for_all(steps, changes):
    able = [one for one in steps[0] if all(one in step for step in steps)] if steps else []
    return min(([one] * len(steps) for one in able), key=lambda one: time_of(steps, changes, one), default=None)


def from_left(steps, changes):
    now, found = "NCHW", []
    for step, change in zip(steps, changes, strict=False):
        now = min(step, key=lambda one: step[one] + (one != now) * change)
        found.append(now)
    return found


def without_ends(steps, changes):
    able = product(*steps) if 0 < len(steps) < 7 else []
    inner = [0.0, *changes[1:-1], 0.0]
    return min(map(list, able), key=lambda one: time_of(steps, inner, one), default=None)


SLIPS = {
    "the fastest kernel of each step is not the shortest time of all: a change takes time, too": fastest_each,
    "one layout for all steps is one candidate: a change may pay": one_for_all,
    "step by step from the left, a step does not see what its layout costs the steps after it": from_left,
    'the input arrives in "NCHW" and the output leaves in it: changes[0] and changes[-1]': without_ends,
}


def check(assign_layouts):
    def compare(steps, changes, hint):
        call = f"assign_layouts({steps}, {changes})"
        got = assign_layouts(steps, changes)
        hint_of_count = "one layout per step, in order"
        require(isinstance(got, list), what=f"{call}: expected a list, got {got!r}", hint=hint_of_count)
        counts = f"expected {len(steps)} layouts, got {len(got)}"
        require(len(got) == len(steps), what=f"{call}: {counts}", hint=hint_of_count)
        for i, (layout, step) in enumerate(zip(got, steps, strict=True)):
            known = "a step has only the layouts of its own dict"
            require(layout in step, what=f"{call}: step {i} has no kernel in {layout!r}", hint=known)
        slips = [slip for slip, wrong in SLIPS.items() if wrong(steps, changes) == got]
        took, could = time_of(steps, changes, got), least(steps, changes)
        say = slips[0] if len(slips) == 1 else hint
        expect(round(took, 6), round(could, 6), what=f"{call} returns {got}, whose µs", hint=say)

    hint = "each step's fastest layout, where a change takes no time"
    compare([{"NCHW": 3.0, "NHWC": 1.0}, {"NCHW": 1.0, "NHWC": 3.0}], [0.0, 0.0, 0.0], hint)
    hint = "a step in another layout saves 2 µs, and the two changes around it take 4"
    compare([{"NCHW": 1.0, "NHWC": 9.0}, {"NCHW": 3.0, "NHWC": 1.0}, {"NCHW": 1.0, "NHWC": 9.0}], [2.0] * 4, hint)
    hint = 'the input arrives in "NCHW" and the output leaves in it'
    compare([{"NCHW": 3.0, "NHWC": 1.0}], [5.0, 5.0], hint)
    compare([{"NCHW": 3.0, "NHWC": 1.0}], [0.5, 5.0], hint)
    hint = "each of two steps saves less than a change takes, both together save more than two changes"
    compare([{"NCHW": 4.0, "NHWC": 1.0}] * 3, [2.0] * 4, hint)
    compare([{"NHWC": 2.0}, {"NCHW": 1.0}, {"NHWC": 2.0}], [1.0] * 4, "a step has only the layouts of its own dict")
    hint = "tensors differ in size: change where the change is cheapest, also if a step there is in its slower layout"
    compare([{"NCHW": 2.0, "NHWC": 2.5}, {"NCHW": 9.0, "NHWC": 1.0}], [1.0, 3.0, 1.0], hint)
    compare([], [1.0], "a network without steps has no layouts")

    draw = python_random()
    every = "for each layout of each step: the least time of all ways to get there, and which way that is"
    names = ["NCHW", "NHWC", "NCHW32"]
    for count in (1, 2, 3, 5, 6, 6, 12, 60, 300) * 4:
        known = names[: draw.choice([2, 2, 3])]
        steps = []
        for _ in range(count):
            some = known if draw.random() < 0.8 else draw.sample(known, draw.randint(1, len(known)))
            steps.append({name: round(draw.uniform(1, 9), 2) for name in draw.sample(some, len(some))})
        scale = draw.choice([0.3, 1.0, 3.0])
        compare(steps, [round(scale * draw.uniform(0.1, 3), 2) for _ in range(count + 1)], every)
