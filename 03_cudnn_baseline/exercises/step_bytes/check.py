import random
from math import prod

from common.check import expect


def check(step_bytes):
    def compare(x, w, stride, padding, residual, itemsize, hint):
        n, _, *extents = x
        height, width = ((e + 2 * padding - k) // stride + 1 for e, k in zip(extents, w[2:], strict=True))
        out = n * w[0] * height * width
        want = itemsize * (prod(x) + prod(w) + w[0] + out + (out if residual else 0))
        arguments = f"{x}, {w}, {stride}, {padding}, {residual}, {itemsize}"
        expect(step_bytes(x, w, stride, padding, residual, itemsize), want, what=f"step_bytes({arguments})", hint=hint)

    hint = (
        "input, weight, bias and output, each once: the activation is applied before the output is written, so it"
        " moves nothing"
    )
    compare((1, 8, 7, 7), (8, 8, 1, 1), 1, 0, False, 4, hint)
    hint = "the weight has O · (C / groups) · kH · kW numbers, which is what its shape says, whatever the groups"
    compare((1, 8, 7, 7), (8, 1, 3, 3), 1, 1, False, 4, hint)
    compare((1, 4, 5, 5), (12, 4, 1, 1), 1, 0, False, 4, "the output has O channels, not C, and so has the bias")
    hint = "with a stride the output is smaller: (H + 2 · padding − kH) // stride + 1 rows"
    compare((1, 8, 14, 14), (8, 1, 3, 3), 2, 1, False, 4, hint)
    compare((1, 8, 7, 7), (8, 8, 1, 1), 1, 0, True, 4, "the residual has the output's shape; it is read, once")
    compare((1, 8, 7, 7), (8, 8, 1, 1), 1, 0, False, 2, "a number takes `itemsize` bytes, 2 in fp16")
    hint = "N pictures have N inputs and N outputs, but one weight and one bias"
    compare((5, 8, 7, 7), (8, 8, 1, 1), 1, 0, True, 4, hint)
    compare((1, 3, 9, 6), (4, 3, 3, 3), 2, 1, False, 4, "height and width may differ")

    draw = random.Random()
    for _ in range(20):
        groups, per_group, kernel = draw.randint(1, 4), draw.randint(1, 5), draw.choice([1, 3, 5])
        x = (draw.randint(1, 9), groups * per_group, draw.randint(5, 19), draw.randint(5, 19))
        w = (groups * draw.randint(1, 6), per_group, kernel, kernel)
        stride, padding = draw.randint(1, 2), draw.randint(0, 2)
        compare(x, w, stride, padding, draw.random() < 0.5, draw.choice([2, 4]), "any convolution")
