"""Follows one output back through the layers to the inputs that it reads."""

from common.check import expect
from common.check.trials import Slips, python_random, whole


def seen(layers):
    first = last = 0
    for kernel, stride in reversed(layers):
        first, last = first * stride, last * stride + kernel - 1
    return last - first + 1


def forward(layers, field=1, own_stride=False, multiply=True):
    step = 1
    for kernel, stride in layers:
        field += (kernel - 1) * step * (stride if own_stride else 1)
        step = step * stride if multiply else stride
    return field


def kernels_multiplied(layers):
    field = 1
    for kernel, _ in layers:
        field *= kernel
    return field


SLIPS = {
    "fields overlap, they do not multiply": kernels_multiplied,
    "the kernels do not add up: neighbouring windows overlap, a layer adds kernel − 1": lambda layers: sum(
        kernel for kernel, _ in layers
    ),
    "a layer's own stride does not widen what one of its outputs sees, only that of the layers after it": (
        lambda layers: forward(layers, own_stride=True)
    ),
    "the steps of all strides before a layer multiply": lambda layers: forward(layers, multiply=False),
    "the layers come in order, the first reads the input: a stride counts for the layers after it": lambda layers: (
        forward(layers[::-1])
    ),
    "a stride counts for the layers after it: their taps lie that many inputs apart": lambda layers: (
        1 + sum(kernel - 1 for kernel, _ in layers)
    ),
    "without any layer an output is its input: the field begins at 1, not at 0": lambda layers: seen(layers) - 1,
    "this is how many inputs one step of the last layer's outputs moves, not how many one output sees": lambda layers: (
        forward([(2, stride) for _, stride in layers] + [(2, 1)]) - forward([(2, stride) for _, stride in layers])
    ),
}


def check(receptive_field):
    slips = Slips(SLIPS)

    def compare(hint, layers):
        got = receptive_field(list(layers))
        hint = slips.hint(got, (layers,), hint)
        expect(got, seen(layers), what=f"receptive_field({layers})", hint=hint)

    compare("a layer with kernel 3 sees 3 inputs", [(3, 1)])
    compare("the first layer adds kernel − 1 to 1, whatever its own stride is", [(5, 2)])
    compare("two layers of kernel 3 see 5 inputs: fields overlap, they do not multiply", [(3, 1), (3, 1)])
    hint = "a stride counts for the layers after it: their taps lie that many inputs apart"
    compare(hint, [(3, 2), (3, 1)])
    compare("the steps of all strides before a layer multiply", [(3, 2), (3, 3), (3, 1)])
    compare("the layers come in order, the first reads the input", [(5, 1), (3, 3)])
    compare("without a layer an output is its input", [])

    draw = python_random()
    each = "each layer adds kernel − 1 steps, a step being the product of the strides before it"
    for count in (1, 2, 3, 5, 8, 20, 60):
        for _ in range(6):
            compare(each, [(draw.randint(1, 5), draw.randint(1, 3)) for _ in range(count)])
    for _ in range(10):
        compare(each, [(whole(draw), draw.choice([1, 2, whole(draw)])) for _ in range(draw.randint(1, 6))])

    # the stem and 17 depthwise convolutions of MobileNetV2
    strides = [2, 1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]
    compare(each, [(3, stride) for stride in strides])
