"""Adds the block up convolution by convolution, from their output shapes."""

import math

from common.check import expect
from common.check.trials import Slips, python_random, whole


def counted(i, o, size, stride=1, batch=1, *, skip=None, later=False, wide=False, floor=False):
    """The block's multiply-adds; the options are slips: the shortcut's condition, the stride in the second, …"""
    out = size // stride if floor else -(-size // stride)
    shapes = [((batch, o, out, out), 9 * i), ((batch, o, out, out), 9 * (i if wide else o))]
    if later:
        shapes[0] = ((batch, o, size, size), 9 * i)
    if (stride != 1 or i != o) if skip is None else skip(i, o, stride):
        shapes.append(((batch, o, out, out), i))
    return sum(math.prod(shape) * each for shape, each in shapes)


SLIPS = {
    "a multiply-add is one, though it is two floating-point operations": lambda *a: 2 * counted(*a),
    "without a shortcut convolution where the shapes are equal: the input is added as it is": lambda *a: counted(
        *a, skip=lambda i, o, s: True
    ),
    "where the shapes differ, the shortcut is a 1×1 convolution: in_channels · out_channels per pixel": lambda *a: (
        counted(*a, skip=lambda i, o, s: False)
    ),
    "the shapes differ as well if only the stride is not 1": lambda *a: counted(*a, skip=lambda i, o, s: i != o),
    "the shapes differ as well if only the channels differ": lambda *a: counted(*a, skip=lambda i, o, s: s != 1),
    "the first convolution has the stride, so both compute on the smaller map": lambda *a: counted(*a, later=True),
    "the second convolution reads out_channels channels": lambda *a: counted(*a, wide=True),
    "with padding 1, a stride of 2 makes 4 rows of 7: it rounds up": lambda *a: counted(*a, floor=True),
    "each output pixel is computed; the stride makes fewer of them": lambda i, o, size, stride, batch: counted(
        i, o, size, 1, batch, skip=lambda *_: stride != 1 or i != o
    ),
    "every picture of the batch is computed": lambda i, o, size, stride, batch: counted(i, o, size, stride, 1),
}


def check(basic_block_macs):
    slips = Slips(SLIPS)

    def compare(hint, *arguments):
        got = basic_block_macs(*arguments)
        full = (*arguments, *(1, 1)[len(arguments) - 3 :])
        what = f"basic_block_macs({', '.join(map(str, arguments))})"
        expect(got, counted(*full), what=what, hint=slips.hint(got, full, hint))

    compare("two 3×3 convolutions from 4 to 4 channels; the input is added as it is", 4, 4, 8)
    compare("at stride 2 a 1×1 convolution converts the input", 6, 10, 8, 2)
    compare("other channels: a 1×1 convolution converts the input", 6, 10, 8, 1)
    compare("the same channels, but half the rows: a 1×1 convolution converts the input", 6, 6, 8, 2)
    compare("with padding 1, a stride of 2 makes 4 rows of 7", 6, 10, 7, 2)
    compare("every picture of the batch is computed", 6, 10, 8, 2, 3)

    draw = python_random()
    for _ in range(40):
        channels = whole(draw)
        others = draw.choice([channels, whole(draw)])
        hint = "the outputs of each convolution, times what one output reads: a whole number, however large"
        compare(hint, channels, others, draw.randint(1, 300), draw.choice([1, 2, 3]), whole(draw))
