"""Lists the block's arrays by shape and adds up their sizes."""

import math
import random

from common.check import expect


def shapes(in_channels, out_channels, t):
    hidden = t * in_channels
    convs = [(hidden, 1, 3, 3), (out_channels, hidden, 1, 1)]
    if t != 1:
        convs.insert(0, (hidden, in_channels, 1, 1))
    return [shape for conv in convs for shape in (conv, (conv[0],), (conv[0],))]


def check(block_parameters):
    def compare(hint, *args):
        want = sum(math.prod(shape) for shape in shapes(*args))
        expect(block_parameters(*args), want, what=f"block_parameters{args}", hint=hint)

    # the first answer, by what it is off
    i, o, t = 24, 32, 6
    hidden = t * i
    got, want = block_parameters(i, o, t), sum(math.prod(shape) for shape in shapes(i, o, t))
    hint = {
        9 * hidden * (hidden - 1): "the depthwise filters read one channel each: groups are not divided out",
        2 * (2 * hidden + o): "running mean and variance are counted, they are not learned",
        2 * hidden + o: "the convolutions have no bias: their batch-norms have one",
        -2 * (2 * hidden + o): "the batch-norms are missing",
        -2 * o: "the linear convolution is followed by a batch-norm as well, only not by a ReLU6",
        -(i * hidden + 2 * hidden): "the expanding convolution is missing",
        (t * o - hidden) * (i + 9 + o + 4): "the hidden channels are t times those that come in",
    }.get(got - want if isinstance(got, int) else None)
    compare(hint or "three convolutions and three batch-norms: which arrays has each?", i, o, t)
    compare("with t = 1 the block begins with the depthwise convolution", 32, 16, 1)

    draw = random.Random()
    for _ in range(20):
        hint = "in_channels, out_channels and t may be any numbers"
        compare(hint, draw.randint(1, 99), draw.randint(1, 99), draw.randint(2, 9))
