"""Follows one output back through the layers to the inputs that it reads."""

import random

from common.check import expect


def seen(layers):
    first = last = 0
    for kernel, stride in reversed(layers):
        first, last = first * stride, last * stride + kernel - 1
    return last - first + 1


def check(receptive_field):
    def compare(hint, layers):
        shown = str(layers) if len(layers) < 6 else "the layers of MobileNetV2"
        got = receptive_field(list(layers))
        expect(got, seen(layers), what=f"receptive_field({shown})", hint=hint)

    compare("a layer with kernel 3 sees 3 inputs", [(3, 1)])
    compare("the first layer adds kernel − 1 to 1, whatever its own stride is", [(5, 2)])
    compare("two layers of kernel 3 see 5 inputs: fields overlap, they do not multiply", [(3, 1), (3, 1)])
    hint = "a stride counts for the layers after it: their taps lie that many inputs apart"
    compare(hint, [(3, 2), (3, 1)])
    compare("the steps of all strides before a layer multiply", [(3, 2), (3, 2), (3, 1)])
    compare("the layers come in order, the first reads the input", [(5, 1), (3, 3)])
    compare("without a layer an output is its input", [])

    draw = random.Random()
    for _ in range(30):
        layers = [(draw.randint(1, 5), draw.randint(1, 3)) for _ in range(draw.randint(2, 5))]
        compare("kernels and strides may be any numbers", layers)

    # the stem and 17 depthwise convolutions
    strides = [2, 1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]
    compare("18 layers of kernel 3, as many as MobileNetV2 has", [(3, stride) for stride in strides])
