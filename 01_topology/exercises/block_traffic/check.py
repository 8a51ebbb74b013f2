"""Lists, kernel by kernel, the tensors that go in and out."""

import math

from common.check import expect
from common.check.trials import Slips, python_random, whole


def moved(in_channels, out_channels, t, size, stride, fused, batch=1, itemsize=4):
    out_size = -(-size // stride)
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


def with_input(condition):
    """What is moved if the project kernel, or the fused one, reads the block's input once more under a condition."""

    def slip(i, o, t, size, stride, fused, batch=1, itemsize=4):
        once = batch * i * size**2 * itemsize
        right = once if stride == 1 and i == o and not fused else 0
        return moved(i, o, t, size, stride, fused, batch, itemsize) - right + once * condition(i, o, stride, fused)

    return slip


def expanding(i, o, t, size, stride, fused, batch=1, itemsize=4):
    return moved(i, o, t, size, stride, fused, batch, itemsize) + 2 * batch * i * size**2 * itemsize * (t == 1)


SLIPS = {
    "the block adds its input only if stride is 1: here it is not": with_input(lambda i, o, s, f: i == o and not f),
    "the block adds its input only if it has as many channels as the result": with_input(
        lambda i, o, s, f: s == 1 and not f
    ),
    "the project kernel also reads the block's input, to add it, if stride is 1 and the channels agree": with_input(
        lambda i, o, s, f: False
    ),
    "fused, the input is read once and serves the addition too": with_input(lambda i, o, s, f: s == 1 and i == o),
    "with t = 1 there is no expand kernel: the depthwise kernel reads the block's input": expanding,
    "bytes are asked for, not elements": lambda *args, itemsize=4, **more: moved(*args, itemsize=1, **more),
    "bytes are asked for, not bits": lambda *args, itemsize=4, **more: moved(*args, itemsize=8 * itemsize, **more),
    "itemsize is the bytes of one element: 2 in fp16": lambda *args, itemsize=4, **more: moved(*args, **more),
    "every picture of the batch has its own activations": lambda *args, batch=1, **more: moved(*args, batch=1, **more),
    "at stride 2 the depthwise kernel writes half the rows and half the columns": (
        lambda i, o, t, size, stride, fused, **more: (
            moved(i, o, t, size, 1, fused, **more)
            - (stride != 1 and i == o and not fused)
            * i * size**2 * more.get("batch", 1) * more.get("itemsize", 4)
        )
    ),
}  # fmt: skip


def check(block_traffic):
    slips = Slips({told: lambda args, options, slip=slip: slip(*args, **options) for told, slip in SLIPS.items()})

    def compare(hint, *args, **options):
        shown = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in options.items())])
        got = block_traffic(*args, **options)
        hint = slips.hint(got, (args, options), hint)
        expect(got, moved(*args, **options), what=f"block_traffic({shown})", hint=hint)

    three = "three kernels: each reads what the one before has written and writes its own output, 4 bytes per element"
    compare(three, 24, 32, 6, 10, 1, False)
    compare("at stride 2 the depthwise kernel writes half the rows and half the columns", 24, 32, 6, 10, 2, False)
    hint = "the project kernel also reads the block's input, to add it, if stride is 1 and the channels agree"
    compare(hint, 24, 24, 6, 10, 1, False)
    compare("the block's input is only added if stride is 1: here it is 2", 24, 24, 6, 10, 2, False)
    hint = "with t = 1 there is no expand kernel: the depthwise kernel reads the block's input"
    compare(hint, 32, 16, 1, 12, 1, False)
    compare("with padding 1, stride 2 makes 4 rows of 7: it rounds up", 24, 32, 6, 7, 2, False)
    fused = "fused, the input is read once and serves the addition too; of all else only the result is written"
    compare(fused, 24, 32, 6, 10, 1, True)
    compare(fused, 24, 24, 6, 10, 1, True)
    compare(fused, 32, 16, 1, 7, 2, True)
    compare("every picture of the batch has its own activations", 24, 32, 6, 10, 1, False, batch=5)
    compare("itemsize is the bytes of an element: 2 in fp16", 24, 32, 6, 10, 1, False, itemsize=2)
    compare("with padding 1, a stride of 3 makes 4 rows of 11: it rounds up", 24, 24, 6, 11, 3, False)

    draw = python_random()
    for _ in range(60):
        channels = whole(draw)
        args = (channels, draw.choice([channels, whole(draw)]), draw.choice([1, 2, 6, whole(draw)]))
        size = whole(draw)
        stride = draw.choice([1, 1, 2, 3, whole(draw), max(1, size // draw.randint(2, 9))])
        options = {"batch": whole(draw), "itemsize": draw.choice([1, 2, 4, 8, whole(draw)])}
        hint = "add up what each kernel reads and writes, for these sizes; fused, there is one kernel"
        compare(hint, *args, size, stride, draw.random() < 0.3, **options)
