"""Adds padding one by one until there are enough outputs."""

import math
import random

from common.check import expect


def padded(size, kernel, stride, upper):
    total = 0
    while (size + total - kernel) // stride + 1 < math.ceil(size / stride):
        total += 1
    halves = (total // 2, math.ceil(total / 2))
    return halves if upper else halves[::-1]


def check(same_padding):
    def compare(hint, size, kernel, stride, upper=True):
        shown = f"same_padding({size}, {kernel}, {stride}{'' if upper else ', upper=False'})"
        got, want = same_padding(size, kernel, stride, upper), padded(size, kernel, stride, upper)
        if upper and got == want[::-1]:
            hint = "SAME_UPPER puts the larger half after the input"
        expect(got, want, what=shown, hint=hint)

    compare("at stride 1 a kernel of 5 needs 4 more inputs than outputs", 10, 5, 1)
    compare("⌈size / stride⌉ rounds up: a part of a window at the end counts as an output", 9, 5, 4)
    compare("with an odd input, padding at stride 2 is the same on both sides", 225, 3, 2)
    hint = "with an even input, the last window at stride 2 needs one row less: (0, 1), not (1, 1)"
    compare(hint, 224, 3, 2)
    compare("SAME_LOWER puts the larger half before the input", 224, 3, 2, upper=False)
    compare("SAME_LOWER puts the larger half before the input", 9, 4, 1, upper=False)
    compare("padding is never negative: where windows leave gaps, there is none", 12, 1, 2)
    compare("padding is never negative: where windows leave gaps, there is none", 12, 2, 4, upper=False)

    draw = random.Random()
    for _ in range(40):
        kernel, stride = draw.randint(1, 7), draw.randint(1, 4)
        hint = "sizes, kernels and strides may be any numbers"
        compare(hint, draw.randint(kernel, 60), kernel, stride, draw.random() < 0.5)
