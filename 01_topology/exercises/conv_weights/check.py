"""Counts the weights group by group: each output channel of a group has a window per input channel of the group."""

from common.check import expect
from common.check.trials import Slips, python_random, whole


def counted(in_channels, out_channels, kernel, groups=1):
    inputs, outputs = in_channels // groups, out_channels // groups
    return groups * (outputs * inputs * kernel**2)


SLIPS = {
    "an output channel reads the input channels of its own group only": lambda i, o, k, g=1: o * i * k**2,
    "each group has its own weights: count them for all groups": lambda i, o, k, g=1: (o // g) * (i // g) * k**2,
    "the window is square: kernel · kernel weights per input channel": lambda i, o, k, g=1: o * (i // g) * k,
    "there is no bias": lambda i, o, k, g=1: o * (i // g) * k**2 + o,
    "every output channel has a filter of its own": lambda i, o, k, g=1: (i // g) * k**2,
    "groups divides the product once, not twice, and never multiplies it": lambda i, o, k, g=1: g * o * i * k**2,
}


def check(conv_weights):
    slips = Slips(SLIPS)

    def compare(hint, *args):
        got = conv_weights(*args)
        expect(got, counted(*args), what=f"conv_weights{args}", hint=slips.hint(got, args, hint))

    every = "one weight per place of the window, per input channel that is read, per output channel: a whole number"
    compare("one weight per input channel and output channel", 4, 8, 1)
    compare("a 3×3 window has 9 places", 4, 8, 3)
    compare("every output channel reads one group of input channels", 4, 4, 3, 2)
    compare("in a depthwise convolution, every output channel reads one input channel", 4, 4, 3, 4)
    compare("in and out may differ with groups, too", 6, 12, 5, 3)

    draw = python_random()
    for _ in range(40):
        groups = draw.choice([1, whole(draw)])
        compare(every, groups * whole(draw), groups * whole(draw), draw.randint(1, 11), groups)
