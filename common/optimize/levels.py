"""What crosses memory at each level of fusion, from the layers alone, and the least time that it takes (chapter 06).

for name, joined in LEVELS.items():
    kernels = kernels_of(steps, joined)                    steps that run together, kernel by kernel
    sum(traffic(kernel, itemsize=2) for kernel in kernels)     bytes of activations of one picture
floor(kernel, 2, batch, macs, roofs, peaks)                (µs of its bytes, µs of its FLOPs)
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from ..measure.roofline import Peaks, Work, arithmetic_us, memory_us
from ..network.registry import Step

Kernel = Sequence[Step]

# by name, the kinds of steps that run in one kernel with the step behind them
LEVELS: Mapping[str, Collection[str]] = {
    "conv + bias + ReLU6 + addition": (),
    "depthwise and project": ("depthwise",),
    "expand and depthwise": ("expand",),
    "whole blocks": ("expand", "depthwise"),
    "… and head with its pooling": ("expand", "depthwise", "head"),
    "… and stem with the first block": ("expand", "depthwise", "head", "stem"),
}


def kernels_of(steps: Sequence[Step], joined: Collection[str], kind: Callable[[Step], str]) -> list[list[Step]]:
    """The steps as kernels: a step whose kind is in `joined` runs in one kernel with the step behind it."""
    kernels: list[list[Step]] = [[]]
    for step in steps:
        kernels[-1].append(step)
        if kind(step) not in joined:
            kernels.append([])
    return [kernel for kernel in kernels if kernel]


def traffic(kernel: Kernel, itemsize: int) -> int:
    """Bytes of activations of one picture: what the kernel reads and does not make itself, and its last output."""
    made = {step.output for step in kernel}
    shapes: dict[str, tuple[int, ...]] = {}
    for step in kernel:
        for layer in step.layers:
            shapes |= dict(zip(layer.inputs, layer.input_shapes, strict=True))
    outside = {name for step in kernel for name in step.reads} - made
    return itemsize * (sum(prod(shapes[name]) for name in outside) + prod(kernel[-1].output_shape))


def apart(steps: Sequence[Step], with_bias: bool) -> tuple[int, int]:
    """(kernels, elements of activations of a picture) if every layer is a kernel; with_bias: its bias within it."""
    layers = [layer for step in steps for layer in step.layers]
    moved = sum(sum(map(prod, layer.input_shapes)) + prod(layer.output_shape) for layer in layers)
    if with_bias:
        return len(layers), moved
    convolutions = [layer for layer in layers if type(layer).__name__ == "Conv2d"]
    return len(layers) + len(convolutions), moved + sum(2 * prod(layer.output_shape) for layer in convolutions)


def floor(
    kernel: Kernel, itemsize: int, batch: int, macs: Callable[[Step], int], roofs: Callable[[Step], str], peaks: Peaks
) -> tuple[float, float]:
    """(µs of a kernel's bytes, µs of its FLOPs): activations of `batch` pictures, weights once.

    macs: multiply-adds of a step for one picture. roofs: the arithmetic that a step uses, as in roofline.Peaks.
    Different units, FMA and tensor cores, work at the same time: the busiest counts.
    """
    moved = batch * traffic(kernel, itemsize) + sum(step.parameter_bytes(itemsize) for step in kernel)
    units: defaultdict[str, float] = defaultdict(float)
    for step in kernel:
        units[roofs(step)] += arithmetic_us(Work(1, 2 * batch * macs(step)), roofs(step), peaks)
    return memory_us(Work(moved, 0), peaks), max(units.values())
