"""Counts them one output channel and one group at a time."""

import random

from common.check import expect


def counted(output_shape, in_channels, kernel_size, groups=1):
    batch, out_channels, height, width = output_shape
    macs = 0
    for channel in range(out_channels):
        group = channel // (out_channels // groups)
        inputs = [i for i in range(in_channels) if i // (in_channels // groups) == group]
        macs += batch * height * width * len(inputs) * kernel_size[0] * kernel_size[1]
    return macs


def check(conv_macs):
    def compare(hint, output_shape, in_channels, kernel_size, groups=1):
        shown = f"conv_macs({output_shape}, {in_channels}, {kernel_size}" + f", groups={groups}" * (groups != 1)
        got = conv_macs(output_shape, in_channels, kernel_size, groups)
        want = counted(output_shape, in_channels, kernel_size, groups)
        if got == 2 * want:
            hint = "a multiply-accumulate is one, though it is two floating-point operations"
        elif groups > 1 and got == want / groups:
            hint = "groups divide once: each output reads fewer channels, but there are as many outputs"
        expect(got, want, what=f"{shown})", hint=hint)

    compare("each output takes in_channels · kH · kW of them", (1, 5, 4, 6), 3, (1, 1))
    compare("kH and kW both count, and may differ", (1, 5, 4, 6), 3, (3, 5))
    compare("every picture of the batch is computed", (7, 5, 4, 6), 3, (3, 3))
    compare("groups are not divided out: a depthwise output reads one channel", (1, 12, 5, 5), 12, (3, 3), 12)
    hint = "groups divide once: an output reads in_channels / groups, and there are still out_channels of them"
    compare(hint, (1, 24, 5, 5), 12, (3, 3), 4)

    draw = random.Random()
    for _ in range(20):
        groups = draw.randint(1, 4)
        output = (draw.randint(1, 3), groups * draw.randint(1, 5), draw.randint(1, 9), draw.randint(1, 9))
        kernel = (draw.randint(1, 5), draw.randint(1, 5))
        compare("batch, groups and kernel together", output, groups * draw.randint(1, 5), kernel, groups)
