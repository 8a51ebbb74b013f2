"""What a planner decides: which layers share a step, what that saves, and where tensors lie in an arena."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from ..report.plots import CARD, COLOURS, INK, WIDTH
from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Drawing, arrow, canvas, cell, frame, positive, text

STEPS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)  # of the steps of a small network, in turn
BOX = 4.6  # width of a layer's box
KERNELS = {  # the colour of a tensor by the kernel that writes it
    "input": SKY, "conv": COLOURS["stem"], "pointwise": COLOURS["expand"], "depthwise": COLOURS["depthwise"],
    "add": COLOURS["project"], "im2col": COLOURS["expand"], "pool": COLOURS["pool"],
    "gemm": COLOURS["linear"], "workspace": PURPLE,
    "convolution": COLOURS["expand"], "norm + ReLU": COLOURS["depthwise"], "concatenation": COLOURS["project"],
    "hard-swish": GREEN, "other": COLOURS["pool"],
}  # fmt: skip

Ranges = Mapping[str, Sequence[int]]  # tensor → (bytes, first step, last step), both included


def steps(networks: Mapping[str, tuple[Any, Sequence[Sequence[str]]]]) -> Drawing:
    """Small networks, a row each: a box per layer, an arrow per tensor that is read, a colour and a frame per step.

    An arrow down from the graph's output leads to the caller.

    networks: by title, (topology.Graph, steps), each step the names of its layers. At most six layers.
    ValueError for a step with a layer that the graph does not have.
    """
    height = 4.9
    figure, axes = canvas(40, height * len(networks), 0.9)
    said = []
    for row, (title, (graph, made)) in enumerate(networks.items()):
        top, places = row * height, {graph.input: 0}
        for number, layer in enumerate(graph.layers, start=1):
            places[layer.output] = number
        if unknown := {name for step in made for name in step} - places.keys():
            raise ValueError(f"networks: {sorted(unknown)[0]!r} is no layer of {title!r}")
        text(axes, 0.4, top + 0.75, title, 11, ha="left", family="monospace")
        y = top + 3.3
        for number, step in enumerate(made):
            colour = STEPS[number % len(STEPS)]
            first, last = (_left(places[name]) for name in (step[0], step[-1]))
            if [places[name] for name in step] == list(range(places[step[0]], places[step[-1]] + 1)):
                frame(axes, first - 0.35, y - 1.15, last - first + BOX + 0.7, 2.3, colour, 0.3)
        for number, step in enumerate(made):
            for name in step:
                layer = graph.layers[places[name] - 1]
                cell(axes, _left(places[name]), y - 0.75, BOX, 1.5, STEPS[number % len(STEPS)])
                kind = type(layer).__name__.replace("ResidualAdd", "add").replace("Conv2d", "conv")
                kind = kind.replace("BatchNorm2d", "norm")
                text(axes, _left(places[name]) + BOX / 2, y, f"{kind} → {name}", 10)
        text(axes, 1.2, y, graph.input, 11)
        for layer in graph.layers:
            for name in layer.inputs:
                _edge(axes, places[name], places[layer.output], y)
        middle = _left(places[graph.output]) + BOX / 2
        arrow(axes, (middle, y + 0.75), (middle, y + 1.6))
        said.append(f"{title}: {_worded(made)}")
    return Drawing(figure, f"Layers as boxes, arrows from writer to reader, a frame per step. {'; '.join(said)}.")


def _left(place: int) -> float:
    """The left edge of the box at a place; 0 is the input."""
    return 6.2 * place - 2.9


def _edge(axes: Any, start: int, end: int, y: float) -> None:
    """Draw an arrow to the next box, or an arc over those between."""
    begin = _left(start) + BOX if start else 1.8
    if end == start + 1:
        arrow(axes, (begin, y), (_left(end), y))
        return
    middle = (_left(start) + BOX / 2 if start else 1.2, y - 0.75)
    look: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 11,
        "color": GREY,
        "linewidth": 1.2,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    target = (_left(end) + 1.0, y - 0.75)
    bend = -2.4 / (target[0] - middle[0])  # as high for every arc
    axes.add_patch(FancyArrowPatch(middle, target, connectionstyle=f"arc3,rad={bend}", **look))


def _worded(made: Sequence[Sequence[str]]) -> str:
    return " | ".join(" ".join(step) for step in made)


def fusion_kinds(channels: int, filters: Sequence[int]) -> Drawing:
    """Vertical fusion (producer and consumer) beside horizontal fusion (layers that read the same tensor).

    channels: of the tensor that is read; filters: of each 1×1 convolution that reads it, two or three.
    """
    positive(channels=channels)
    if not 2 <= len(filters) <= 3:
        raise ValueError(f"filters: expected two or three numbers, got {tuple(filters)}")
    figure, axes = canvas(40, 14.8)
    for x, words in ((0.4, "vertical: producer and consumer"), (16.8, "horizontal: readers of one tensor")):
        text(axes, x, 0.8, words, 12, ha="left", weight="bold")
    # vertical
    _tensor(axes, 0.6, 2.0, f"x, {channels} channels")
    arrow(axes, (4.6, 3.5), (4.6, 4.6))
    frame(axes, 0.4, 4.6, 8.4, 6.3, BLUE, 0.3)
    cell(axes, 1.2, 5.2, 6.8, 1.6, BLUE)
    text(axes, 4.6, 6.0, f"conv, {filters[0]} filters", 10.5)
    arrow(axes, (4.6, 6.8), (4.6, 8.6))
    text(axes, 4.9, 7.7, "in a register", 10, ha="left", color=GREY)
    cell(axes, 1.2, 8.6, 6.8, 1.6, BLUE)
    text(axes, 4.6, 9.4, "ReLU6", 10.5)
    arrow(axes, (4.6, 10.9), (4.6, 12.0))
    _tensor(axes, 0.6, 12.0, f"{filters[0]} channels")
    # horizontal
    width, gap = 6.6, 0.5
    total = len(filters) * (width + gap) - gap
    start = 17.2
    _tensor(axes, start + total / 2 - 5, 2.0, f"x, {channels} channels: read once", 10.0)
    frame(axes, start - 0.4, 4.6, total + 0.8, 3.6, GREEN, 0.3)
    arrow(axes, (start + total / 2, 3.5), (start + total / 2, 4.6))
    for number, count in enumerate(filters):
        left = start + number * (width + gap)
        cell(axes, left, 5.2, width, 1.4, GREEN)
        text(axes, left + width / 2, 5.9, f"1×1, {count} filters", 10)
        arrow(axes, (left + width / 2, 8.2), (left + width / 2, 12.0))
        _tensor(axes, left, 12.0, f"{count} channels", width)
    text(axes, start + total / 2, 7.4, f"one convolution, {sum(filters)} filters: the weights one below the other", 10)
    text(axes, start + total / 2, 14.0, "one tensor in memory, which the next steps read in parts", 10, color=GREY)
    return Drawing(
        figure,
        f"Left, vertical fusion: a convolution of {channels} channels and the ReLU6 that reads its output within one"
        f" frame; the number between them stays in a register. Right, horizontal fusion: {len(filters)} convolutions of"
        f" 1×1 with {', '.join(map(str, filters))} filters, which read the same tensor, as one with {sum(filters)}.",
    )


def _tensor(axes: Any, x: float, y: float, words: str, width: float = 8.0) -> None:
    axes.add_patch(Rectangle((x, y), width, 1.5, facecolor="none", edgecolor=INK, linewidth=1.2))
    text(axes, x + width / 2, y + 0.75, words, 10)


def saved_bytes(remains: Sequence[float], saved: Mapping[str, Sequence[float]]) -> Drawing:
    """MB that each step moves, and on top what each kind of layer that joined has saved, as stacked bars."""
    figure = Figure(figsize=(WIDTH, 3.4), dpi=110, facecolor=CARD, layout="constrained")
    axes = figure.add_subplot(facecolor=CARD)
    places, bottom = range(len(remains)), list(remains)
    axes.bar(places, remains, color=COLOURS["expand"], label="moved by the steps")
    for (kind, sizes), colour in zip(saved.items(), (COLOURS["depthwise"], COLOURS["project"], PURPLE), strict=False):
        axes.bar(places, sizes, bottom=bottom, color=colour, label=f"saved: {kind} joined")
        bottom = [low + size for low, size in zip(bottom, sizes, strict=True)]
    axes.set(xlim=(-0.8, len(remains) - 0.2), ylim=(0, 1.04 * max(bottom)))
    axes.set_xlabel("step", fontsize=11)
    axes.set_ylabel("MB of activations, fp32", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=10.5)
    sums = ", ".join(f"{kind} {sum(sizes):.1f} MB" for kind, sizes in saved.items())
    return Drawing(
        figure,
        f"Stacked bars, one per step: the {sum(remains):.1f} MB of activations that the steps move, and on top what"
        f" joining saves ({sums}). Step {bottom.index(max(bottom))} had most bytes.",
    )


def live_ranges(ranges: Ranges, names: Iterable[str] = ()) -> Drawing:
    """Live ranges as bars from the first step to the last, a row per tensor, with the tensor's kB.

    names: the tensors to draw, in order, at most 14; default: the first ten. ValueError for an unknown one.
    """
    shown = list(names) or list(ranges)[:10]
    if unknown := [name for name in shown if name not in ranges]:
        raise ValueError(f"names: {unknown[0]!r} has no live range")
    end = max(ranges[name][2] for name in shown)
    inner = [ranges[name][2] for name in shown if ranges[name][2] < end]
    until = max(inner, default=end) + 1  # a range that goes on is cut off there
    figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(shown)), dpi=110, facecolor=CARD, layout="constrained")
    axes = figure.add_subplot(facecolor=CARD)
    said = []
    for row, name in enumerate(shown):
        size, first, last = ranges[name][:3]
        cut = min(last, until)
        axes.barh(row, cut - first + 1, left=first - 0.5, height=0.66, color=SKY if last > until else COLOURS["expand"])
        more = f", until {last}" if last > until else ""
        axes.text(cut + 0.65, row, f"{size / 1e3:,.0f} kB{more}", va="center", fontsize=10, color=INK)
        said.append(f"{name}, {size / 1e3:,.0f} kB, from {first} to {last}")
    axes.set_yticks(range(len(shown)), shown, fontsize=10)
    axes.invert_yaxis()
    axes.set_xlim(-0.6, until + 2.2)
    axes.set_xticks(range(until + 1))
    axes.set_xlabel("step", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return Drawing(figure, f"Live ranges as bars over the steps, both ends included: {'; '.join(said)}.")


def arena(
    placements: Mapping[str, tuple[Ranges, Mapping[str, int]]], kinds: Mapping[str, str] | None = None
) -> Drawing:
    """Arenas side by side: each tensor a rectangle, as wide as it lives and as high as it is large, at its offset.

    placements   by title, (ranges, offsets in bytes); one or two
    kinds        tensor → the kernel that writes it, for the colours; "other" for those that are missing. Without it,
                 at most eight tensors have a colour and their name each

    The black line is the sum of all that is alive.
    """
    figure = Figure(figsize=(WIDTH, 3.9), dpi=110, facecolor=CARD, layout="constrained")
    panels = figure.subplots(1, len(placements), squeeze=False)[0]
    said, present = [], []
    scale = max(_end(*one) for one in placements.values())
    unit, name = (1e6, "MB") if scale >= 2e6 else (1e3, "kB")
    for axes, (title, (ranges, offsets)) in zip(panels, placements.items(), strict=True):
        axes.set_facecolor(CARD)
        end = max(last for _, _, last in ranges.values())
        for tensor, (size, first, last) in ranges.items():
            kind = tensor if kinds is None else kinds.get(tensor, "other")
            colour = KERNELS.get(kind, KERNELS["other"]) if kinds is not None else STEPS[list(ranges).index(tensor) % 6]
            place = (first - 0.5, offsets[tensor] / unit)
            look: dict[str, Any] = {"facecolor": colour, "edgecolor": CARD, "linewidth": 0.6}
            axes.add_patch(Rectangle(place, last - first + 1, size / unit, **look))
            present.append((kind, colour))
            if kinds is None and len(ranges) <= 8:
                middle = ((first + last) / 2, (offsets[tensor] + size / 2) / unit)
                axes.text(*middle, tensor, ha="center", va="center", fontsize=11, color="white", weight="bold")
        sums = [sum(size for size, first, last in ranges.values() if first <= i <= last) for i in range(end + 1)]
        axes.step(range(end + 1), [one / unit for one in sums], where="mid", color="black", linewidth=1.2)
        axes.set(xlim=(-0.6, end + 0.6), ylim=(0, 1.06 * scale / unit))
        axes.set_title(title, fontsize=11, loc="left")
        if end <= 12:
            axes.set_xticks(range(end + 1))
        axes.set_xlabel("step", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        peak = sums.index(max(sums))
        said.append(
            f"{title}: {_end(ranges, offsets) / unit:,.2f} {name} high; the line is highest at step {peak}, with"
            f" {max(sums) / unit:,.2f} {name}"
        )
    panels[0].set_ylabel(f"offset, {name}", fontsize=11)
    if kinds is not None:
        found = dict(present)
        keys: list[Any] = [Patch(color=found[kind], label=kind) for kind in KERNELS if kind in found]
        keys.append(panels[0].plot([], [], color="black", linewidth=1.2, label="all that is alive")[0])
        figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), frameon=False, fontsize=10)
    return Drawing(
        figure,
        "Tensors as rectangles, from the step that writes them to the last that reads them, at their offsets; a black"
        f" line is the sum of all that is alive. {'; '.join(said)}.",
    )


def _end(ranges: Ranges, offsets: Mapping[str, int]) -> int:
    """The bytes of an arena."""
    return max(offsets[name] + size for name, (size, _, _) in ranges.items())
