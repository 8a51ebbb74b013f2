"""What folding does to a block: its layers before and after."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..report.plots import COLOURS
from ..topology import BatchNorm2d, Conv2d, Layer, ReLU6, ResidualAdd
from .canvas import DARK_RED, GREY, PAPER, Drawing, arrow, canvas, frame, text


def kind(layer: Conv2d) -> str:
    """The kind of a convolution in MobileNetV2, which has a colour: "depthwise", "expand", "project" or "stem"."""
    if layer.groups > 1:
        return "depthwise"
    if layer.in_channels == 3:
        return "stem"
    return "expand" if layer.out_channels > layer.in_channels else "project"


def _numbers(layer: Layer) -> int:
    if isinstance(layer, Conv2d):
        weight = layer.out_channels * (layer.in_channels // layer.groups) * layer.kernel_size[0] * layer.kernel_size[1]
        return weight + (layer.out_channels if layer.bias else 0)
    return 4 * layer.output_shape[1] if isinstance(layer, BatchNorm2d) else 0


def _box(axes: Any, x: float, y: float, width: float, layer: Layer, bias: int = 0) -> None:
    """A layer's box: its kind, and its numbers; `bias`: those that folding adds."""
    name, colour = "batch-norm", GREY
    if isinstance(layer, Conv2d):
        name = kind(layer)
        colour = COLOURS[name]
    elif isinstance(layer, ReLU6 | ResidualAdd):
        name, colour = ("ReLU6", PAPER) if isinstance(layer, ReLU6) else ("add", COLOURS["add"])
    frame(axes, x, y, width, 1.5, GREY if colour == PAPER else colour, 0.12)
    text(axes, x + width / 2, y + 0.5, name, 10)
    numbers = _numbers(layer) + bias
    text(axes, x + width / 2, y + 1.05, f"{numbers:,}" if numbers else "–", 10, color=DARK_RED if bias else "#222222")


def folding(layers: Sequence[Layer]) -> Drawing:
    """The layers of a block with batch-norms, and those that are left after folding; each with its parameters.

    layers: in a row, beginning with a convolution, each batch-norm directly after a convolution; at most 10.
    ValueError for other layers.
    """
    if not layers or len(layers) > 10 or not isinstance(layers[0], Conv2d):
        raise ValueError("layers must be 1 to 10 layers that begin with a convolution")
    for before, layer in pairwise(layers):
        if isinstance(layer, BatchNorm2d) and not isinstance(before, Conv2d):
            raise ValueError(f"a batch-norm must stand after a convolution, got one after {type(before).__name__}")
    figure, axes = canvas(23, 7.6, 0.95)
    pitch = 22.6 / len(layers)
    width = pitch - 0.28
    text(axes, 0.3, 0.5, "before folding, and below it after folding", ha="left", weight="bold")
    left, fewer = [], 0
    for k, layer in enumerate(layers):
        x = 0.3 + k * pitch
        _box(axes, x, 1.0, width, layer)
        if k:
            arrow(axes, (x - 0.26, 1.75), (x - 0.02, 1.75), GREY)
        if isinstance(layer, BatchNorm2d):
            arrow(axes, (x + width / 2, 2.6), (x - pitch + width * 0.75, 4.5), DARK_RED)
            text(axes, x + width / 2 + 0.1, 3.3, "s, t", 10, color=DARK_RED, ha="left")
            fewer += 3 * layer.output_shape[1]
        else:
            left.append(k)
    for place, k in enumerate(left):
        x = 0.3 + k * pitch
        gone = k + 1 < len(layers) and isinstance(layers[k + 1], BatchNorm2d)
        _box(axes, x, 4.6, width, layers[k], layers[k].output_shape[1] if gone else 0)
        if place:
            arrow(axes, (0.3 + left[place - 1] * pitch + width + 0.04, 5.35), (x - 0.04, 5.35), GREY)
    total = sum(_numbers(layer) for layer in layers)
    words = f"{len(layers)} layers → {len(left)}, {total:,} parameters → {total - fewer:,}"
    text(axes, 0.3, 7.0, f"{words}. Below each name: its parameters; red: a bias was added.", 11, ha="left")
    names = ", ".join(type(layer).__name__ for layer in layers)
    return Drawing(
        figure,
        f"A block before folding: {names}. Each batch-norm hands its scale s and its shift t to the convolution before"
        f" it. After folding the batch-norms are gone and each of these convolutions has a bias: {words}.",
    )
