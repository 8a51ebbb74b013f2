"""Lists the block's arrays by shape and adds up their sizes."""

import math

from common.check import expect
from common.check.trials import Slips, python_random, whole


def shapes(in_channels, out_channels, t):
    hidden = t * in_channels
    convs = [(hidden, 1, 3, 3), (out_channels, hidden, 1, 1)]
    if t != 1:
        convs.insert(0, (hidden, in_channels, 1, 1))
    return [shape for conv in convs for shape in (conv, (conv[0],), (conv[0],))]


def counted(in_channels, out_channels, t):
    return sum(math.prod(shape) for shape in shapes(in_channels, out_channels, t))


def off_by(difference):
    """A wrong count: the right one and what it is off."""
    return lambda i, o, t: counted(i, o, t) + difference(i, o, t, t * i)


def wide(i, t):
    """Channels that batch-norms of hidden channels have: there are two, or one without an expanding convolution."""
    return (2 if t != 1 else 1) * t * i


SLIPS = {
    "the depthwise filters read one channel each: they are hidden · 1 · 3 · 3 numbers": off_by(
        lambda i, o, t, hidden: 9 * hidden * (hidden - 1)
    ),
    "running mean and variance are counted, they are not learned": off_by(lambda i, o, t, hidden: 2 * (wide(i, t) + o)),
    "the convolutions have no bias: their batch-norms have one": off_by(lambda i, o, t, hidden: wide(i, t) + o),
    "the batch-norms are missing": off_by(lambda i, o, t, hidden: -2 * (wide(i, t) + o)),
    "a batch-norm learns two numbers per channel, a weight and a bias": off_by(
        lambda i, o, t, hidden: -(wide(i, t) + o)
    ),
    "the linear convolution is followed by a batch-norm as well, only not by a ReLU6": off_by(
        lambda i, o, t, hidden: -2 * o
    ),
    "the expanding convolution is missing": lambda i, o, t: 11 * t * i + t * i * o + 2 * o,
    "the expanding convolution's batch-norm is missing": off_by(lambda i, o, t, hidden: -2 * hidden * (t != 1)),
    "the hidden channels are t times those that come in": lambda i, o, t: (
        (i * t * o + 2 * t * o) * (t != 1) + 11 * t * o + t * o * o + 2 * o
    ),
    "the depthwise convolution is 3×3: 9 numbers per channel": off_by(lambda i, o, t, hidden: -8 * hidden),
    "with t = 1 the block begins with the depthwise convolution": off_by(
        lambda i, o, t, hidden: (i * hidden + 2 * hidden) * (t == 1)
    ),
}


def check(block_parameters):
    slips = Slips(SLIPS)

    def compare(hint, *args):
        got = block_parameters(*args)
        expect(got, counted(*args), what=f"block_parameters{args}", hint=slips.hint(got, args, hint))

    arrays = "three convolutions without bias, and three batch-norms with a weight and a bias: add up their numbers"
    compare(arrays, 24, 32, 6)
    compare("with t = 1 there are the depthwise and the linear convolution, with a batch-norm each", 32, 16, 1)
    compare(arrays, 1, 1, 2)

    draw = python_random()
    for _ in range(40):
        compare(arrays, whole(draw), whole(draw), draw.choice([1, whole(draw)]))
