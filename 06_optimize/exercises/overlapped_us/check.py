from common.check import expect
from common.check.trials import python_random


def simulate(kernels, boundary_us, handoff_us):
    begins, ends = [], []  # of the bodies
    for prologue_us, body_us, programmatic in kernels:
        if not ends:
            begins.append(prologue_us)
        elif programmatic:
            begins.append(max(begins[-1] + prologue_us, ends[-1] + handoff_us))
        else:
            begins.append(ends[-1] + boundary_us + prologue_us)
        ends.append(begins[-1] + body_us)
    return ends[-1]


def check(overlapped_us):
    def compare(kernels, boundary_us, handoff_us, hint):
        what = f"overlapped_us({kernels}, {boundary_us}, {handoff_us})"
        want = simulate(kernels, boundary_us, handoff_us)
        expect(overlapped_us(kernels, boundary_us, handoff_us), want, what=what, hint=hint, rtol=1e-9)

    first = "the first kernel has no boundary in front of it: n kernels have n - 1"
    compare([(0.5, 2.0, False)], 1.0, 0.25, first)
    ordinary = "an ordinary kernel's prologue begins boundary_us after the one ahead has ended, and its body after that"
    compare([(0.5, 2.0, False), (0.5, 3.0, False), (0.25, 1.0, False)], 1.0, 0.25, ordinary)
    compare([(0.5, 2.0, True)], 1.0, 0.25, first)
    hidden = "a short prologue is over before the one ahead ends: then only handoff_us lies between the two bodies"
    compare([(0.5, 2.0, True), (0.5, 3.0, True)], 1.0, 0.25, hidden)
    long = "a prologue may take longer than the body that it hides behind: then the body waits for it, and nothing else"
    compare([(0.0, 2.0, True), (6.0, 3.0, True)], 1.0, 0.25, long)
    begin = "the prologue begins when the body of the one ahead begins, no earlier"
    compare([(4.0, 2.0, True), (5.0, 3.0, True)], 1.0, 0.25, begin)
    mixed = "each kernel has its own word on whether it is programmatic: the second one, here"
    compare([(0.5, 2.0, False), (0.5, 3.0, True), (0.25, 1.0, False)], 1.0, 0.25, mixed)

    draw = python_random()
    hint = (
        "an ordinary body begins boundary_us and its prologue after the end of the one ahead; a programmatic one when"
    )
    hint += (
        " its prologue, begun with the body ahead, is over, and not before handoff_us after the end of the one ahead"
    )
    for count in (1, 2, 3, 12, 60) * 10:
        scale = 10.0 ** draw.randint(-6, 6)
        kernels = [
            (scale * draw.choice([0, draw.uniform(0, 3), 9]), scale * draw.uniform(0.1, 5), draw.random() < 0.5)
            for _ in range(count)
        ]
        compare(kernels, scale * draw.uniform(0, 3), scale * draw.choice([0, draw.uniform(0, 5)]), hint)
