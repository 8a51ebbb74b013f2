"""Layers of a convolutional network: an inverted residual, kinds of convolutions, their windows, receptive fields."""

from collections.abc import Sequence
from typing import Any

from ..report import plots
from ..report.plots import COLOURS
from .canvas import DARK_RED, GREY, INK, PAPER, RED, Drawing, arrow, canvas, cell, positive, text

_TALL = 6.0  # units: the height of the tensor with the most channels


def block(in_channels: int = 32, hidden: int = 192, out_channels: int = 32, stride: int = 1, side: int = 28) -> Drawing:
    """An inverted residual: its tensors, as high as they have channels and as wide as their sides, and its layers.

    side: of the input. Without an expanding convolution, hidden equals in_channels. The skip connection is drawn if
    the block has one: stride 1, and as many channels out as in.
    """
    positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels, stride=stride, side=side)
    after = -(-side // stride)
    tensors = [(in_channels, side), (hidden, side), (hidden, after), (out_channels, after)]
    layers = [("expand", "1×1", "batch-norm, ReLU6"), ("depthwise", f"3×3, stride {stride}", "batch-norm, ReLU6"),
              ("project", "1×1", "batch-norm")]  # fmt: skip
    if hidden == in_channels:
        tensors, layers = tensors[1:], layers[1:]
    skip = stride == 1 and in_channels == out_channels
    figure, axes = canvas(37, 12.4)
    high = max(channels for channels, _ in tensors)
    first, between = 3.0, (30.0 if skip else 31.0) / (len(tensors) - 1)
    middle = 5.2
    centres = [first + between * i for i in range(len(tensors))]
    halves = [0.3 + 1.3 * size / side for _, size in tensors]
    for (channels, size), x, half in zip(tensors, centres, halves, strict=True):
        tall = max(0.4, _TALL * channels / high)
        cell(axes, x - half, middle - tall / 2, 2 * half, tall, PAPER)
        text(axes, x, 9.1, f"{channels} × {size} × {size}", 11, weight="bold")
        text(axes, x, 10.2, f"{channels * size * size:,}", 10)
        text(axes, x, 11.0, "elements", 10, color=GREY)
    for i, (kind, window, then) in enumerate(layers):
        start, end = centres[i] + halves[i] + 0.3, centres[i + 1] - halves[i + 1] - 0.3
        x = (start + end) / 2
        arrow(axes, (start, middle), (end, middle), COLOURS[kind], linewidth=2.4)
        text(axes, x, middle - 1.6, kind, 11, weight="bold")
        text(axes, x, middle - 0.7, window, 10)
        text(axes, x, middle + 0.9, then.replace(", ", "\n") if between < 11 else then, 10, va="top", color=GREY)
    if skip:
        x, top = centres[-1] + halves[-1] + 1.7, 0.9
        line: dict[str, Any] = {"color": COLOURS["add"], "linewidth": 2.4, "solid_joinstyle": "miter"}
        tall = max(0.4, _TALL * in_channels / high)
        axes.plot([centres[0], centres[0], x], [middle - tall / 2, top, top], **line)
        arrow(axes, (x, top), (x, middle - 0.6), COLOURS["add"], linewidth=2.4)
        arrow(axes, (centres[-1] + halves[-1] + 0.2, middle), (x - 0.6, middle), INK)
        text(axes, x, middle, "+", 18, weight="bold")
        text(axes, (centres[0] + x) / 2, 0.35, "skip connection: the input is added to the output", 10)
    shapes = ", ".join(f"{channels} × {size} × {size}" for channels, size in tensors)
    kinds = ", ".join(f"{kind} {window}" for kind, window, _ in layers)
    words = "The input is added to the output." if skip else "There is no skip connection."
    return Drawing(
        figure,
        f"An inverted residual. Layers from left to right: {kinds}. Tensors (channels × height × width): {shapes}."
        f" The height of a box is its number of channels. {words}",
    )


def convolutions(channels: int = 4, kernel: int = 3, groups: int = 2, weights: bool = True) -> Drawing:
    """Dense, grouped, depthwise and pointwise convolution: which input channels reach which outputs.

    channels: of input and output, at most 8. groups: of the grouped convolution, a divisor of channels.
    weights: whether the number of weights stands below, with its factors.
    """
    positive(channels=channels, kernel=kernel, groups=groups)
    if channels > 8:
        raise ValueError(f"channels must be at most 8, got {channels}")
    if channels % groups:
        raise ValueError(f"groups must divide {channels} channels, got {groups}")
    panels = [
        ("dense", 1, kernel, COLOURS["stem"]), (f"grouped, {groups} groups", groups, kernel, COLOURS["stem"]),
        ("depthwise", channels, kernel, COLOURS["depthwise"]), ("pointwise", 1, 1, COLOURS["expand"]),
    ]  # fmt: skip
    figure, axes = canvas(37, (6.4 if weights else 3.6) + 1.15 * channels)
    counts = []
    for i, (name, parts, window, colour) in enumerate(panels):
        left = 0.5 + 9.2 * i
        text(axes, left + 4.2, 0.7, name, 11, weight="bold")
        text(axes, left + 4.2, 1.6, f"{window}×{window} window", 10, color=GREY)
        text(axes, left + 1.7, 2.5, "in", 10, color=GREY)
        text(axes, left + 6.7, 2.5, "out", 10, color=GREY)
        per = channels // parts
        for c in range(channels):
            y = 3.0 + 1.15 * c
            for source in range(c // per * per, c // per * per + per):
                line: dict[str, Any] = {"color": colour, "linewidth": 1.4}
                axes.plot([left + 2.2, left + 6.2], [3.5 + 1.15 * source, y + 0.5], **line)
            for x in (left + 1.2, left + 6.2):
                cell(axes, x, y, 1.0, 1.0, PAPER)
                text(axes, x + 0.5, y + 0.5, str(c), 10)
        counts.append(channels * per * window * window)
        if weights:
            below = 3.9 + 1.15 * channels
            text(axes, left + 4.2, below, f"{channels} outputs · {per} in · {window} · {window}", 10)
            text(axes, left + 4.2, below + 1.2, f"{counts[-1]} weights", 11, weight="bold")
    said = "; ".join(f"{name}: {count} weights" for (name, *_), count in zip(panels, counts, strict=True))
    return Drawing(
        figure,
        f"Four convolutions with {channels} input channels and {channels} output channels, and lines from the input"
        f" channels that an output channel reads. Dense and pointwise: all. Grouped: those of its group. Depthwise:"
        " one." + (f" {said}." if weights else ""),
    )


def windows(
    size: int = 8, kernel: int = 3, stride: int = 2, padding: tuple[int, int] = (0, 0), dilation: int = 2
) -> Drawing:
    """The places of a convolution's window along one dimension, one row per output, and the first that does not fit.

    ValueError if the padded input is longer than 24, if no window fits, or if there are more than 8 outputs.
    """
    positive(size=size, kernel=kernel, stride=stride, dilation=dilation)
    before, behind = padding
    if min(padding) < 0:
        raise ValueError(f"padding must be two numbers of 0 or more, got {padding!r}")
    room, extent = before + size + behind, dilation * (kernel - 1) + 1
    outputs = (room - extent) // stride + 1
    if room > 24 or not 0 < outputs <= 8 or extent > room:
        raise ValueError(f"the input must have at most 24 elements and 1 to 8 outputs, got {room} and {outputs}")
    columns = max(room, outputs * stride + extent)
    wide = max(26.0, columns + 5.4)
    first = 5.1 + (wide - columns - 5.4) / 2
    figure, axes = canvas(wide, outputs + 3.9)
    text(axes, first - 0.3, 1.0, "input", 10, ha="right", weight="bold")
    for i in range(room):
        padded = not before <= i < before + size
        cell(axes, first + i, 0.5, 1, 1, GREY if padded else PAPER)
        text(axes, first + 0.5 + i, 1.0, "pad" if padded else str(i - before), 10, color=INK)
    for o in range(outputs + 1):
        y, fits = 1.9 + o + (0.25 if o == outputs else 0), o < outputs
        colour = COLOURS["stem"] if fits else RED
        words = f"output {o}" if fits else "does not fit"
        text(axes, first - 0.3, y + 0.4, words, 10, ha="right", color=INK if fits else DARK_RED)
        for tap in range(kernel):
            x = first + o * stride + tap * dilation
            cell(axes, x, y, 1, 0.8, colour)
            text(axes, x + 0.5, y + 0.4, "x", 10)
    text(axes, wide / 2, outputs + 3.55, "x: an input that the window reads", 10, color=GREY)
    return Drawing(
        figure,
        f"{size} inputs, padding {before} before and {behind} after, kernel {kernel}, stride {stride}, dilation"
        f" {dilation}. A window covers {extent} inputs and moves by {stride}. {outputs} places fit; at the next one the"
        " window ends outside of the input.",
    )


def receptive_field(layers: Sequence[tuple[int, int]] = ((3, 2), (3, 1))) -> Drawing:
    """What one output of the last layer sees, layer by layer down to the input. layers: (kernel, stride) of each.

    ValueError without layers, or if the output sees more than 24 inputs.
    """
    if not layers:
        raise ValueError("layers must be at least one (kernel, stride), got none")
    for kernel, stride in layers:
        positive(kernel=kernel, stride=stride)
    counts = [1]  # elements seen at each level, the last layer's output first
    for kernel, stride in reversed(layers):
        counts.append((counts[-1] - 1) * stride + kernel)
    counts.reverse()
    field = counts[0]
    if field > 24:
        raise ValueError(f"the output must see at most 24 inputs, got {field}")
    figure, axes = canvas(max(16, field) + 11, 2.6 * len(counts) + 0.6)
    left = 8.2 + (max(16, field) - field) / 2
    centres = [[left + 0.5 + i for i in range(field)]]
    for (kernel, stride), count in zip(layers, counts[1:], strict=True):
        below = centres[-1]
        centres.append([(below[i * stride] + below[i * stride + kernel - 1]) / 2 for i in range(count)])
    kinds = ("input", *(f"layer {k}: kernel {kernel}, stride {stride}" for k, (kernel, stride) in enumerate(layers, 1)))
    for level, (xs, kind) in enumerate(zip(centres, kinds, strict=True)):
        y = 2.6 * (len(layers) - level) + 0.6
        if level:
            kernel, stride = layers[level - 1]
            for i, x in enumerate(xs):
                for other in centres[level - 1][i * stride : i * stride + kernel]:
                    axes.plot([x, other], [y + 1, y + 2.6], color=COLOURS["stem"], linewidth=1.0)
        for x in xs:
            cell(axes, x - 0.45, y, 0.9, 1, COLOURS["stem"] if level else PAPER)
        text(axes, 0.2, y + 0.3, kind.partition(":")[0], 10, ha="left", weight="bold")
        text(axes, 0.2, y + 1.0, kind.partition(": ")[2], 10, ha="left")
        seen = f"{len(xs)} input{'s' * (len(xs) > 1)}" if level == 0 else f"{len(xs)} output{'s' * (len(xs) > 1)}"
        text(axes, left + field + 0.2, y + 0.5, seen, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"{len(layers)} layers, (kernel, stride) {', '.join(map(str, layers))}. One output of the last layer is"
        f" computed from {', then '.join(f'{count}' for count in reversed(counts[:-1]))} elements of the levels below:"
        f" it sees {field} inputs.",
    )


def convolution_outputs(network: Any, input_size: int = 224) -> list[tuple[str, int]]:
    """(kind, elements of output) of each convolution of a MobileNetV2, in execution order, for one image.

    network: a torch.nn.Module; only its shapes are computed. kind: "stem, head", "expand", "depthwise" or "project".
    """
    import copy

    import torch

    found: list[tuple[str, int]] = []

    def note(layer: Any, _: Any, output: Any) -> None:
        kind = "expand" if layer.out_channels > layer.in_channels else "project"
        found.append(("depthwise" if layer.groups > 1 else kind, output.numel()))

    network = copy.deepcopy(network).to("meta").eval()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(note)
    network(torch.empty(1, 3, input_size, input_size, device="meta"))
    return [("stem, head" if i in (0, len(found) - 1) else kind, size) for i, (kind, size) in enumerate(found)]


def outputs(found: Sequence[tuple[str, int]]) -> Drawing:
    """Bars: the elements that each convolution writes, from convolution_outputs."""
    kinds, sizes = zip(*found, strict=True)
    return Drawing(
        plots.outputs(kinds, sizes),
        f"Bars: million elements of output of each of the {len(found)} convolutions, in execution order, coloured by"
        " kind, with a thin line between blocks. Expand and depthwise tensors near the input are by far the largest;"
        " most project tensors are small, and tensors mostly become smaller towards the end.",
    )
