from math import prod

from common.check import expect
from common.check.trials import Slips, python_random, whole


def moved(x, w, stride, padding, residual, itemsize, times=(1, 1, 1, 1, 1)):
    """`times`: how often x, the weight, the bias, the output and the residual are moved."""
    n, _, *extents = x
    height, width = ((e + 2 * padding - k) // stride + 1 for e, k in zip(extents, w[2:], strict=True))
    out = n * w[0] * height * width
    arrays = prod(x), prod(w), w[0], out, out if residual else 0
    return itemsize * sum(count * array for count, array in zip(times, arrays, strict=True))


SLIPS = {
    "there is always a bias, one number per output channel": lambda *a: moved(*a, times=(1, 1, 0, 1, 1)),
    "the weight is read as well": lambda *a: moved(*a, times=(1, 0, 1, 1, 1)),
    "the output is written as well": lambda *a: moved(*a, times=(1, 1, 1, 0, 1)),
    "the residual is read as well, where there is one": lambda *a: moved(*a, times=(1, 1, 1, 1, 0)),
    "the residual is read, once, and not written": lambda *a: moved(*a, times=(1, 1, 1, 1, 2)),
    "the activation is applied before the output is written, so it moves nothing": lambda *a: moved(
        *a, times=(1, 1, 1, 3, 1)
    ),
    "the weight has O · (C / groups) · kH · kW numbers, which is what its shape says, whatever the groups": (
        lambda x, w, *a: moved(x, w, *a) + (x[1] // w[1] - 1) * prod(w) * a[-1]
    ),
    "N pictures have N inputs and N outputs, but one weight": lambda x, *a: moved(x, *a, times=(1, x[0], 1, 1, 1)),
    "N pictures have N inputs and N outputs, but one weight and one bias": lambda x, *a: moved(
        x, *a, times=(1, x[0], x[0], 1, 1)
    ),
    "`itemsize` is the bytes of one number, 2 in fp16": lambda x, w, s, p, r, itemsize: moved(x, w, s, p, r, 4),
    "the kernel does not fit at the borders: without padding the output has H − kH + 1 rows": (
        lambda x, w, s, p, r, itemsize: moved(x, (*w[:2], 1, 1), s, 0, r, itemsize) + itemsize * (prod(w) - w[0] * w[1])
    ),
    "with a stride the output is smaller than the input": lambda x, w, s, p, r, itemsize: moved(
        x, w, 1, p, r, itemsize
    ),
    "bytes are asked for, not bits": lambda *a: 8 * moved(*a),
}


def check(step_bytes):
    slips = Slips(SLIPS)

    def compare(x, w, stride, padding, residual, itemsize, hint):
        arguments = x, w, stride, padding, residual, itemsize
        got = step_bytes(*arguments)
        expect(got, moved(*arguments), what=f"step_bytes{arguments}", hint=slips.hint(got, arguments, hint))

    hint = (
        "input, weight, bias and output, each once: the activation is applied before the output is written, so it"
        " moves nothing"
    )
    compare((1, 8, 7, 7), (8, 8, 1, 1), 1, 0, False, 4, hint)
    hint = "there are (H + 2 · padding − kH) // stride + 1 rows, here H − 2; padding is added on both sides"
    compare((1, 8, 7, 7), (8, 8, 3, 3), 1, 0, False, 4, hint)
    compare((1, 8, 7, 7), (8, 8, 3, 3), 1, 1, False, 4, "padding is added on both sides: H + 2 · padding − kH + 1 rows")
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

    draw = python_random()
    compare((1, 8, 12, 12), (8, 8, 3, 5), 1, 1, False, 4, "a kernel may be wider than high: kH rows, kW columns")
    hint = "what x's, the weight's and the output's shape say, O numbers of bias, and one more output for a residual"
    for _ in range(60):
        groups, per_group = draw.choice([1, draw.randint(2, 9), whole(draw)]), whole(draw)
        kernel = draw.choice([(1, 1), (3, 3), (1, 7), (whole(draw), whole(draw))])
        padding = draw.choice([0, 1, whole(draw)])
        extents = [max(1, k - 2 * padding) + draw.choice([0, 1, whole(draw)]) for k in kernel]
        x, w = (whole(draw), groups * per_group, *extents), (groups * whole(draw), per_group, *kernel)
        stride = draw.choice([1, 2, 3, whole(draw), max(1, min(extents) // draw.randint(2, 9))])
        compare(x, w, stride, padding, draw.random() < 0.5, draw.choice([1, 2, 4, 8, whole(draw)]), hint)
