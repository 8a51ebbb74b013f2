"""Lists, kernel by kernel, the tensors that go in and out."""

import math
import random

from common.check import expect


def moved(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    out_size = math.ceil(size / stride)
    source, result = (batch, in_channels, size, size), (batch, out_channels, out_size, out_size)
    wide, narrow = (batch, t * in_channels, size, size), (batch, t * in_channels, out_size, out_size)
    kernels = [(source, wide), (wide, narrow), (narrow, result)]
    if t == 1:
        kernels.pop(0)
    if stride == 1 and in_channels == out_channels:
        kernels[-1] = (*kernels[-1], source)
    if fused:
        kernels = [(source, result)]
    return itemsize * sum(math.prod(tensor) for kernel in kernels for tensor in kernel)


def check(block_traffic):
    def compare(hint, *args, **options):
        shown = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in options.items())])
        got = block_traffic(*args, **options)
        expect(got, moved(*args, **options), what=f"block_traffic({shown})", hint=hint)

    hint = "three kernels: each reads what the one before has written, 4 bytes an element"
    if block_traffic(24, 32, 6, 10, 1, False) == moved(24, 32, 6, 10, 1, False) + 4 * 24 * 10**2:
        hint = "the block's input is only added if the channels agree: 24 and 32 do not"
    compare(hint, 24, 32, 6, 10, 1, False)
    compare("at stride 2 the depthwise kernel writes half the rows and half the columns", 24, 32, 6, 10, 2, False)
    hint = "the project kernel also reads the block's input, to add it, if stride is 1 and the channels agree"
    compare(hint, 24, 24, 6, 10, 1, False)
    hint = "the block's input is only added if stride is 1: here it is 2"
    compare(hint, 24, 24, 6, 10, 2, False)
    hint = "with t = 1 there is no expand kernel: the depthwise kernel reads the block's input"
    compare(hint, 32, 16, 1, 12, 1, False)
    compare("with padding 1, stride 2 makes 4 rows of 7: it rounds up", 24, 32, 6, 7, 2, False)
    hint = "fused, the input is read once and serves the addition too; only the result is written"
    compare(hint, 24, 32, 6, 10, 1, True)
    compare(hint, 24, 24, 6, 10, 1, True)
    compare(hint, 32, 16, 1, 7, 2, True)
    compare("every picture of the batch has its own activations", 24, 32, 6, 10, 1, False, batch=5)
    compare("itemsize is the bytes of an element: 2 in fp16", 24, 32, 6, 10, 1, False, itemsize=2)

    draw = random.Random()
    for _ in range(40):
        channels = draw.randint(1, 40)
        args = (channels, draw.choice([channels, draw.randint(1, 40)]), draw.choice([1, 2, 6]))
        size, stride = draw.randint(1, 30), draw.choice([1, 2])
        options = {"batch": draw.randint(1, 4), "itemsize": draw.choice([2, 4, 8])}
        compare("all of it together", *args, size, stride, draw.random() < 0.3, **options)
