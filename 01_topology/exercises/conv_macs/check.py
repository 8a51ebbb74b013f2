"""Counts them one group at a time."""

from common.check import expect
from common.check.trials import Slips, python_random, whole


def counted(output_shape, in_channels, kernel_size, groups=1):
    """Each group is a convolution by itself: its outputs, and for each the numbers that it reads."""
    batch, out_channels, height, width = output_shape
    outputs, taps = out_channels // groups * batch * height * width, kernel_size[0] * kernel_size[1]
    return groups * (outputs * (in_channels // groups * taps))


def slip(factor):
    """A wrong count: the right one times a factor."""

    def times(output_shape, in_channels, kernel_size, groups=1):
        right = counted(output_shape, in_channels, kernel_size, groups)
        over, under = factor(output_shape, in_channels, kernel_size, groups)
        return right * over // under

    return times


SLIPS = {
    "a multiply-accumulate is one, though it is two floating-point operations": slip(lambda o, i, k, g: (2, 1)),
    "groups divide once: each output reads fewer channels, but there are as many outputs": slip(
        lambda o, i, k, g: (1, g)
    ),
    "each output reads the inputs of its own group only: in_channels / groups of them": slip(lambda o, i, k, g: (g, 1)),
    "every picture of the batch is computed: N of them": slip(lambda o, i, k, g: (1, o[0])),
    "kernel_size is (kH, kW), which may differ: kH · kW taps, not kH · kH": slip(lambda o, i, k, g: (k[0], k[1])),
    "kernel_size is (kH, kW), which may differ: kH · kW taps, not kW · kW": slip(lambda o, i, k, g: (k[1], k[0])),
    "kH · kW taps: the kernel has two dimensions": slip(lambda o, i, k, g: (1, k[0])),
    "every output element is computed, for each of the out_channels": slip(lambda o, i, k, g: (1, o[1])),
    "this is the number of weights; each is used once per output pixel, H · W times per picture": slip(
        lambda o, i, k, g: (1, o[0] * o[2] * o[3])
    ),
    "the bias is not counted": lambda o, i, k, g=1: counted(o, i, k, g) + o[0] * o[1] * o[2] * o[3],
}


def check(conv_macs):
    slips = Slips(SLIPS)

    def compare(hint, output_shape, in_channels, kernel_size, groups=1):
        shown = f"conv_macs({output_shape}, {in_channels}, {kernel_size}" + f", groups={groups}" * (groups != 1)
        arguments = output_shape, in_channels, kernel_size, groups
        got = conv_macs(*arguments)
        expect(got, counted(*arguments), what=f"{shown})", hint=slips.hint(got, arguments, hint))

    compare("each output takes in_channels · kH · kW of them", (1, 5, 4, 7), 3, (1, 1))
    compare("kH and kW both count, and may differ", (1, 5, 4, 7), 3, (3, 5))
    compare("every picture of the batch is computed", (11, 5, 4, 7), 3, (3, 3))
    compare("groups are not divided out: a depthwise output reads one channel", (1, 24, 5, 5), 12, (3, 3), 12)
    hint = "an output reads in_channels / groups channels, and there are still out_channels of them"
    compare(hint, (1, 24, 5, 5), 20, (3, 3), 4)

    draw = python_random()
    for _ in range(40):
        groups = draw.choice([1, draw.randint(2, 9), whole(draw)])
        output = (whole(draw), groups * whole(draw), whole(draw), whole(draw))
        kernel = (whole(draw), draw.choice([1, 3, whole(draw)]))
        hint = "N · out_channels · H · W outputs, each of in_channels / groups · kH · kW: a whole number, however large"
        compare(hint, output, groups * whole(draw), kernel, groups)
