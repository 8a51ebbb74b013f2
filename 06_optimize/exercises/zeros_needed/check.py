import cmath
import math

from common.check import Wrong, expect
from common.check.trials import python_random


def wanted(dense, full, empty, box):
    if full <= dense:
        return 0.0
    return None if empty > dense else ((full - dense) / (full - empty)) ** (1 / box)


def check(zeros_needed):
    def compare(*arguments, hint, others=()):
        what, want = f"zeros_needed{arguments}", wanted(*arguments)
        try:
            got = zeros_needed(*arguments)
        except ZeroDivisionError as error:
            raise Wrong(f"{what} raises ZeroDivisionError: {error}", hint) from None
        if got is None and want is not None:
            raise Wrong(f"{what} is None, expected {want:.4f}", hint)
        if isinstance(got, complex):
            got = got.real if cmath.isclose(got, got.real) else math.nan
        if isinstance(got, float):
            hint = next((told for mistake, told in others if math.isclose(got, mistake, rel_tol=1e-9)), hint)
        expect(got, want, what=what, hint=hint, rtol=1e-9)

    hint = "a straight line from `full` at no box to `empty` at all boxes: at which share does it cross `dense`?"
    others = [
        (0.25, "the share that is zero, not of what is left"),
        (0.6, "looking for zeros costs time as well: even if all is zero the kernel takes `empty`, not nothing"),
    ]
    compare(20.0, 50.0, 10.0, 1, hint=hint, others=others)
    hint = "skipping is as fast as the dense kernel already when nothing is zero, so always: 0.0"
    compare(50.0, 50.0, 10.0, 32, hint=hint)
    compare(60.0, 50.0, 10.0, 1, hint=hint)
    hint = "the dense kernel is faster even if all is zero: no share will do, None"
    compare(9.0, 50.0, 10.0, 1, hint=hint)
    compare(9.0, 50.0, 10.0, 32, hint=hint)
    compare(10.0, 50.0, 10.0, 32, hint="if all is zero it is as fast as the dense kernel: 1.0")
    hint = "a box of 32 is skipped only if all 32 are zero. With a share p of zeros each, what share of boxes is that?"
    others = [
        (0.75**32, "the other way round: p to the power of 32 is the share of boxes that p zeros make; p is asked for"),
        (1 - 0.25 / 32, "chances of numbers that are zero by themselves multiply, they do not add up"),
    ]
    compare(20.0, 50.0, 10.0, 32, hint=hint, others=others)

    draw = python_random()
    hint = (
        "0.0 where skipping is never slower, None where it always is; else boxes are skipped from a share on, of which"
    )
    hint += " the box-th root is the share of zeros"
    for _ in range(200):
        scale, empty = 10.0 ** draw.randint(-6, 6), draw.uniform(1, 40)
        full, dense = empty + draw.choice([0.001, 1, 100]) * draw.uniform(0.1, 1), draw.uniform(1, 100)
        dense = draw.choice([dense, full, empty, empty + draw.random() * (full - empty)])
        compare(scale * dense, scale * full, scale * empty, draw.choice([1, 2, 8, 32, 2048, 10**6]), hint=hint)
