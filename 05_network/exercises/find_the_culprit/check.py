from common.check import require
from common.check.trials import python_random

NAN, INF = float("nan"), float("inf")


def check(find_the_culprit):
    def same(steps, want, hint):
        more = ", …" * (len(steps) > 30)
        told = ", ".join("(" + ", ".join(f"{number!r}" for number in step) + ")" for step in steps[:30])
        got = find_the_culprit(list(steps))
        right = got is None if want is None else got == want and not isinstance(got, (bool, float))
        require(right, what=f"find_the_culprit([{told}{more}]) is {got!r}, expected {want}", hint=hint)

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
    draw = python_random()
    same([good, (INF, INF, 1e-6), (NAN, NAN, 1e-6)], 1, "an infinite error is more than any limit")
    same([good, (0.0, 0.0, 0.0), (1e-30, 1e-30, 0.0)], 2, "a limit may be 0: any error is then too much, however small")
    every = "the index of the first step whose own error is not at most what is allowed, None if there is no such step"
    for count in (1, 2, 6, 6, 30, 300) * 6:
        steps = []
        for _ in range(count):
            allowed = 10.0 ** draw.uniform(-12, 1)
            fitting = [0.0, allowed / 2, allowed, allowed * (1 - 1e-12)]
            wrong = [allowed * (1 + 1e-12), 2 * allowed, 1e9, INF, NAN]
            own = draw.choice(wrong if draw.random() < 1 / count else fitting)
            steps.append((draw.choice([0.0, own, draw.random(), NAN, INF]), own, allowed))
        found = [i for i, (_, own, allowed) in enumerate(steps) if not own <= allowed]
        same(steps, found[0] if found else None, every)
