import random

from common.check import require

NAN = float("nan")


def check(find_the_culprit):
    def same(steps, want, hint):
        told = ", ".join("(" + ", ".join(f"{number:g}" for number in step) + ")" for step in steps)
        got = find_the_culprit(list(steps))
        right = got is None if want is None else got == want and not isinstance(got, (bool, float))
        require(right, what=f"find_the_culprit([{told}]) is {got!r}, expected {want}", hint=hint)

    good, after = (2e-7, 1e-7, 1e-6), (0.3, 1e-7, 1e-6)
    hint = "the index of the step, counted from 0"
    same([good, good, (0.2, 0.2, 1e-6), after], 2, hint)
    hint = "nothing is wrong: the answer is None"
    same([good] * 3, None, hint)
    same([], None, hint)
    hint = "error so far is what the steps before have left behind: a right step may be given wrong numbers"
    same([good, (3e-6, 1e-7, 1e-6), (4e-6, 0.1, 1e-6)], 2, hint)
    hint = "the first, not the worst: a later one may be wrong by more"
    same([good, (0.1, 0.1, 1e-6), after, (0.9, 0.8, 1e-6)], 1, hint)
    hint = "each step has its own limit: a long sum may be off by more than a short one"
    same([(2e-5, 2e-5, 3e-5), (2e-5, 8e-6, 2e-6), after], 1, hint)
    hint = "NaN is neither larger nor smaller than anything: `own > allowed` is false for it"
    same([good, (NAN, NAN, 1e-6), (NAN, 1e-7, 1e-6)], 1, hint)
    hint = "error so far is NaN behind a step that gave NaN; that step's own error tells whether it is wrong itself"
    same([good, (NAN, 1e-7, 1e-6), (NAN, 0.5, 1e-6)], 2, hint)
    hint = "step 0 may be the one, and 0 is not None"
    same([(0.5, 0.5, 1e-6), after], 0, hint)
    hint = "an own error that is just what is allowed fits"
    same([(1e-6, 1e-6, 1e-6), good], None, hint)
    draw = random.Random()
    for _ in range(30):
        errors = [1e-8, 1e-7, NAN, 1e-3, 1.0]
        steps = [(draw.random(), draw.choice(errors), draw.choice([1e-6, 2e-3])) for _ in range(6)]
        wrong = [i for i, (_, own, allowed) in enumerate(steps) if not own <= allowed]
        same(steps, wrong[0] if wrong else None, "any steps")
