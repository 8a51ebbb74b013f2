"""The roofline model, and where kernel borders fall when layers are fused."""

import math
from collections.abc import Sequence

from ..report.plots import COLOURS
from ..topology import Conv2d, Graph, ReLU6, build, fusion
from .canvas import BLUE, DARK_RED, GREY, INK, ORANGE, Drawing, canvas, cell, text
from .hardware import quantity


def roofline(dram: float = 20e9, l2: float = 100e9, flops: float = 100e9) -> Drawing:
    """The three lines of a roofline: bandwidths of DRAM and of the L2 cache in B/s, arithmetic in FLOP/s.

    ValueError unless 0 < dram < l2 and flops > 0.
    """
    if not 0 < dram < l2 or not flops > 0:
        raise ValueError(f"dram must be above 0 and below l2, and flops above 0, got {dram}, {l2} and {flops}")
    figure, axes = canvas(36, 17)
    left, right, top, bottom = 3.4, 26.0, 1.0, 14.6
    low, high = flops / l2 / 16, flops / dram * 16
    least = low * dram / 2

    def x(intensity: float) -> float:
        return left + (right - left) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return bottom - (bottom - top - 2.0) * math.log(rate / least) / math.log(flops / least)

    axes.plot([left, left, right], [top, bottom, bottom], color=GREY, linewidth=1.2)
    for bandwidth, colour, style in ((dram, BLUE, "-"), (l2, ORANGE, "--")):
        ridge = flops / bandwidth
        axes.plot([x(low), x(ridge)], [y(low * bandwidth), y(flops)], color=colour, linewidth=2.4, linestyle=style)
        axes.plot([x(ridge)] * 2, [y(flops), bottom], color=colour, linewidth=1, linestyle=":")
        text(axes, x(ridge), bottom + 0.6, f"{ridge:g}", 11, color=INK)
    axes.plot([x(flops / l2), right], [y(flops)] * 2, color=INK, linewidth=2.4)
    text(axes, right + 0.4, y(flops), f"arithmetic:\n{quantity(flops, 'FLOP/s')}", 11, ha="left")
    above, below = low * (flops / l2 / low) ** 0.8, low * (flops / dram / low) ** 0.68
    text(axes, x(above) - 0.5, y(above * l2) - 0.6, f"L2 cache: {quantity(l2, 'B/s')}", 11, ha="right")
    text(axes, x(below) + 0.5, y(below * dram) + 0.7, f"DRAM: {quantity(dram, 'B/s')}", 11, ha="left")
    text(axes, (left + right) / 2, 16.4, "FLOP per byte, logarithmic (each numbered tick: a ridge point)", 11)
    text(axes, 0.8, (top + bottom) / 2, "FLOP per second, logarithmic", 11, rotation=90)
    for rate in (flops, flops * dram / l2):
        text(axes, left - 0.2, y(rate), quantity(rate, "").replace(" ", "\u2009"), 10, ha="right")
    text(axes, right + 0.4, 7.6, "left of a ridge point:\nlimited by bytes", 11, ha="left", color=DARK_RED)
    text(axes, right + 0.4, 10.4, "right of it:\nlimited by arithmetic", 11, ha="left", color=DARK_RED)
    return Drawing(
        figure,
        "A roofline on logarithmic axes: FLOP per second against FLOP per byte. Two lines rise from the left and meet"
        f" the horizontal line of the arithmetic, {quantity(flops, 'FLOP/s')}: the L2 cache's, {quantity(l2, 'B/s')},"
        f" at {flops / l2:g} FLOP per byte, and below it the DRAM's, {quantity(dram, 'B/s')}, at {flops / dram:g} FLOP"
        " per byte. Left of these ridge points a kernel is limited by bytes, right of them by arithmetic.",
    )


def kernel_borders(network: Graph | None = None, block: int = 3, numbers: bool = True) -> Drawing:
    """One block of MobileNetV2 at each level of fusion, a frame per kernel.

    network: by default the paper's. block: 1 to 17, with an expansion, a depthwise and a projection. numbers: whether
    to print the kernels and megabytes of the whole network (fp32, one picture) beside each level. ValueError for a
    block that has no expansion.
    """
    network = network or build()
    inside = [layer for layer in network if layer.name.startswith(f"features.{block}.")]
    convolutions = [layer for layer in inside if isinstance(layer, Conv2d)]
    if len(convolutions) != 3:
        raise ValueError(f"block must be one with three convolutions, 2 to 17, got {block}")
    counted = fusion.counts(network)
    figure, axes = canvas(40, 2.8 + 2.3 * (len(counted) - 1), 0.85)
    parts = _parts(inside)
    left, wide = 9.6, (20.5 if numbers else 29.6) / len(parts)
    for i, (words, kind) in enumerate(parts):
        text(axes, left + (i + 0.5) * wide, 1.7, words.split("\n")[-1], 10)
        if "\n" in words:
            text(axes, left + (i + 1.5) * wide, 0.7, kind, 11, weight="bold")
    if numbers:
        text(axes, 33.0, 1.2, "kernels in\nthe network", 10)
        text(axes, 37.4, 1.2, "MB per\npicture", 10)
    said = []
    for row, (name, (count, elements)) in enumerate(list(counted.items())[:-1]):
        y = 3.4 + 2.3 * row
        groups = _groups(name, inside, network)
        text(axes, 0.2, y, name, 10, ha="left")
        at = 0
        for size in groups:
            for i in range(at, at + size):
                cell(axes, left + (i + 0.12) * wide, y - 0.5, 0.76 * wide, 1.0, COLOURS[parts[i][1]])
            cell(axes, left + (at + 0.03) * wide, y - 0.8, (size - 0.06) * wide, 1.6, INK, alpha=0.0)
            at += size
        if numbers:
            text(axes, 33.0, y, f"{count}", 11, weight="bold")
            text(axes, 37.4, y, f"{4 * elements / 1e6:.1f}", 11, weight="bold")
        beside = f" ({count} in the network, {4 * elements / 1e6:.1f} MB)" if numbers else ""
        many = "1 kernel" if len(groups) == 1 else f"{len(groups)} kernels"
        said.append(f"{name}: {many} in the block{beside}")
    return Drawing(
        figure,
        f"The operations of block {block} from left to right, {', '.join(w.replace(chr(10), ' ') for w, _ in parts)},"
        f" once per level of fusion. A frame surrounds the operations of one kernel. {'; '.join(said)}.",
    )


_NAMES = ("expand", "depthwise", "project")


def _parts(inside: Sequence[object]) -> list[tuple[str, str]]:
    """(words, kind) of a block's operations: a convolution is two, its products and its bias."""
    parts: list[tuple[str, str]] = []
    number = -1
    for layer in inside:
        if isinstance(layer, Conv2d):
            number += 1
            size = "×".join(map(str, layer.kernel_size))
            parts += [(f"{_NAMES[number]}\n{size}", _NAMES[number]), ("bias", _NAMES[number])]
        else:
            parts.append(("ReLU6" if isinstance(layer, ReLU6) else "add", _NAMES[number]))
    return parts


def _groups(level: str, inside: Sequence[object], network: Graph) -> list[int]:
    """How many operations of a block each of its kernels has at a level."""
    if level == fusion.BIAS_SEPARATE:
        return [1] * len(_parts(inside))
    sizes = []
    for kernel in fusion.kernels(network, fusion.LEVELS[level]):
        here = [layer for layer in kernel if any(layer is one for one in inside)]
        if here:
            sizes.append(sum(2 if isinstance(layer, Conv2d) else 1 for layer in here))
    return sizes
