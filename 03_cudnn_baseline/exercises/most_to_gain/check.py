from common.check import expect
from common.check.trials import Slips, python_random


def reference(steps):
    total, saved = 0.0, {}
    for kind, count, us, roof in steps:
        total += count * us
        saved[kind] = saved.get(kind, 0.0) + count * max(0.0, us - roof)
    return {kind: total / (total - gain) for kind, gain in saved.items()}


def total(steps):
    return sum(count * us for _, count, us, _ in steps)


SLIPS = {
    "before over after: how many times faster, not what share of the time is left": lambda steps: {
        kind: 1 / factor for kind, factor in reference(steps).items()
    },
    "before over after: how many times faster, not what share of the time is saved": lambda steps: {
        kind: 1 - 1 / factor for kind, factor in reference(steps).items()
    },
    "how many times faster the network becomes, not how many µs are saved": lambda steps: {
        kind: total(steps) * (1 - 1 / factor) for kind, factor in reference(steps).items()
    },
    "the factor is that of the whole network: the other kinds stay as they are": lambda steps: {
        kind: reference([step for step in steps if step[0] == kind])[kind] for kind, *_ in steps
    },
    "a step that occurs `count` times counts so often": lambda steps: reference(
        [(kind, 1, us, roof) for kind, _, us, roof in steps]
    ),
    "a kind goes to its roof, not to no time at all": lambda steps: reference(
        [(kind, count, us, 0.0) for kind, count, us, _ in steps]
    ),
    "a kind's tuples belong together: all of them go to their roofs at once": lambda steps: {
        kind: total(steps) / (total(steps) - count * max(0.0, us - roof)) for kind, count, us, roof in steps
    },
}


def check(most_to_gain):
    slips = Slips(SLIPS)

    def compare(steps, hint):
        got = most_to_gain(list(steps))
        hint = slips.hint(got, (steps,), hint)
        expect(got, reference(steps), what=f"most_to_gain({steps})", hint=hint, rtol=1e-9)

    compare([("expand", 1, 4.0, 2.0)], "if all of the time halves, the network is twice as fast: before over after")
    hint = "the others stay: the time of the whole network now, over its time with this kind at its roof"
    compare([("expand", 1, 4.0, 2.0), ("project", 1, 12.0, 3.0)], hint)
    compare([("expand", 3, 4.0, 2.0), ("project", 1, 12.0, 3.0)], "a step that occurs `count` times counts so often")
    hint = "a kind's tuples belong together: all of them go to their roofs at once"
    compare([("expand", 1, 4.0, 2.0), ("project", 1, 12.0, 3.0), ("expand", 2, 8.0, 1.0)], hint)
    hint = "a step that is below its roof already stays as it is: it does not become slower"
    compare([("expand", 1, 4.0, 6.0), ("project", 1, 12.0, 3.0)], hint)
    hint = "below the roof, each step by itself: what one cannot gain is not taken off another"
    compare([("expand", 1, 2.0, 6.0), ("expand", 1, 12.0, 3.0), ("head", 1, 5.0, 1.0)], hint)

    draw = python_random()
    names = ["expand", "depthwise", "project", "stem", "3×3", "", "head", "pool", "linear"]
    hint = "per kind: all steps' time now, over that time less what this kind's steps can gain"
    for number in (1, 2, 8, 8, 8, 60) * 6:
        scale = 10.0 ** draw.randint(-6, 6)
        steps = [
            (
                kind,
                draw.choice([1, 2, 17, 3000]),
                round(scale * draw.uniform(2, 9), 9),
                round(scale * draw.uniform(1, 8), 9),
            )
            for kind in draw.choices(names, k=number)
        ]
        compare([*steps, draw.choice(steps)], hint)
