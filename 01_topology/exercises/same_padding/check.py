"""Looks for the least padding that gives enough outputs."""

from common.check import expect
from common.check.trials import MANY, NO_FLOAT, Slips, python_random, whole


def split(total, upper):
    halves = (total // 2, total - total // 2)
    return halves if upper else halves[::-1]


def outputs_of(size, kernel, stride, total):
    return (size + total - kernel) // stride + 1


def padded(size, kernel, stride, upper=True):
    wanted, low, high = -(-size // stride), 0, 1
    while outputs_of(size, kernel, stride, high) < wanted:
        high *= 2
    while low < high:  # by halves: the sizes may be large
        middle = (low + high) // 2
        low, high = (low, middle) if outputs_of(size, kernel, stride, middle) >= wanted else (middle + 1, high)
    return split(low, upper)


SLIPS = {
    "SAME_UPPER puts the larger half after the input": lambda n, k, s, up: padded(n, k, s, False),
    "SAME_LOWER puts the larger half before the input": lambda n, k, s, up: padded(n, k, s, True),
    "half of the kernel on both sides suits stride 1 and odd kernels: as little padding as it takes may be less": (
        lambda n, k, s, up: (k // 2, k // 2)
    ),
    "at a stride the last window may need fewer inputs than kernel − 1 beyond the end": lambda n, k, s, up: split(
        k - 1, up
    ),
    "⌈size / stride⌉ rounds up: a part of a window at the end counts as an output": lambda n, k, s, up: split(
        max((n // s - 1) * s + k - n, 0), up
    ),
    "padding is split into two halves, one on each side": lambda n, k, s, up: (
        (0, sum(padded(n, k, s))) if up else (sum(padded(n, k, s)), 0)
    ),
    "padding is never negative: where windows leave gaps, there is none": lambda n, k, s, up: split(
        (-(-n // s) - 1) * s + k - n, up
    ),
    "both halves are rounded in the same direction: together they are not what is needed": (
        lambda n, k, s, up: (min(padded(n, k, s)),) * 2
    ),
}


def check(same_padding):
    slips = Slips(SLIPS)

    def compare(hint, size, kernel, stride, upper=True):
        shown = f"same_padding({size}, {kernel}, {stride}{'' if upper else ', upper=False'})"
        got = same_padding(size, kernel, stride) if upper else same_padding(size, kernel, stride, upper=False)
        hint = slips.hint(got, (size, kernel, stride, upper), hint)
        expect(got, padded(size, kernel, stride, upper), what=shown, hint=hint)

    compare("at stride 1 a kernel of 5 needs 4 more inputs than outputs, 2 on each side", 10, 5, 1)
    compare("⌈size / stride⌉ rounds up: a part of a window at the end counts as an output", 9, 5, 4)
    compare("with an odd input, padding at stride 2 is the same on both sides", 225, 3, 2)
    hint = "with an even input, the last window at stride 2 needs one row less: (0, 1), not (1, 1)"
    compare(hint, 224, 3, 2)
    compare("SAME_LOWER puts the larger half before the input", 224, 3, 2, upper=False)
    compare("SAME_LOWER puts the larger half before the input", 9, 4, 1, upper=False)
    compare("padding is never negative: where windows leave gaps, there is none", 12, 1, 2)
    compare("padding is never negative: where windows leave gaps, there is none", 12, 2, 4, upper=False)

    draw = python_random()
    hint = "of ⌈size / stride⌉ windows the last ends at (outputs − 1) · stride + kernel; what is beyond the input?"
    for _ in range(80):
        size, kernel = whole(draw, most=MANY), draw.choice([draw.randint(1, 7), whole(draw, most=MANY)])
        stride = draw.choice([draw.randint(1, 4), whole(draw, most=MANY), max(1, size // draw.randint(2, 9))])
        compare(hint, size, kernel, stride, draw.random() < 0.5)
    for _ in range(20):  # few windows, far apart, of which the last needs a little padding
        kernel, stride = draw.randint(1, 9), whole(draw, NO_FLOAT)
        compare(hint, draw.randint(1, 9) * stride + draw.randint(1, kernel), kernel, stride, draw.random() < 0.5)
