from common.check import expect
from common.check.trials import python_random


def simulate(kernel_times, boundary_us, visible_us):
    begins, ends = [], []  # of the bodies
    for prologue_us, body_us, programmatic in kernel_times:
        if not ends:
            begins.append(prologue_us)
        elif programmatic:
            begins.append(max(begins[-1] + prologue_us, ends[-1] + visible_us))
        else:
            begins.append(ends[-1] + boundary_us + prologue_us)
        ends.append(begins[-1] + body_us)
    return ends[-1]


def check(overlapped_us):
    def compare(kernel_times, boundary_us, visible_us, hint):
        what = f"overlapped_us({kernel_times}, {boundary_us}, {visible_us})"
        want = simulate(kernel_times, boundary_us, visible_us)
        expect(overlapped_us(kernel_times, boundary_us, visible_us), want, what=what, hint=hint, rtol=1e-9)

    first = "the first kernel has no boundary before it: n kernels have n - 1"
    compare([(0.5, 2.0, False)], 1.0, 0.25, first)
    ordinary = "an ordinary kernel's prologue starts boundary_us after the previous kernel's end; its body follows"
    compare([(0.5, 2.0, False), (0.5, 3.0, False), (0.25, 1.0, False)], 1.0, 0.25, ordinary)
    compare([(0.5, 2.0, True)], 1.0, 0.25, first)
    hidden = "a short prologue is over before the previous kernel ends: then only visible_us separates the two bodies"
    compare([(0.5, 2.0, True), (0.5, 3.0, True)], 1.0, 0.25, hidden)
    long = "a prologue may take longer than the body that it hides behind: then the body waits for it, and nothing else"
    compare([(0.0, 2.0, True), (6.0, 3.0, True)], 1.0, 0.25, long)
    begin = "the prologue starts when the body of the previous kernel starts, no earlier"
    compare([(4.0, 2.0, True), (5.0, 3.0, True)], 1.0, 0.25, begin)
    mixed = "each kernel says itself whether it is programmatic: the second one, here"
    compare([(0.5, 2.0, False), (0.5, 3.0, True), (0.25, 1.0, False)], 1.0, 0.25, mixed)

    draw = python_random()
    hint = (
        "an ordinary body starts boundary_us and its prologue after the previous kernel's end; a programmatic one when"
    )
    hint += " its prologue, started with the previous body, is over, and not before visible_us after the previous end"
    for count in (1, 2, 3, 12, 60) * 10:
        scale = 10.0 ** draw.randint(-6, 6)
        kernel_times = [
            (scale * draw.choice([0, draw.uniform(0, 3), 9]), scale * draw.uniform(0.1, 5), draw.random() < 0.5)
            for _ in range(count)
        ]
        compare(kernel_times, scale * draw.uniform(0, 3), scale * draw.choice([0, draw.uniform(0, 5)]), hint)
