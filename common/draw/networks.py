"""An ONNX graph: its parts, how names link its nodes, how a list of layers is made of it, and windows with padding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, NodeProto, helper

from .canvas import (
    BLUE,
    DARK_GREEN,
    DARK_RED,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    Drawing,
    arrow,
    canvas,
    cell,
    frame,
    positive,
    text,
)

_KINDS = {
    "Conv": "Conv2d", "Clip": "ReLU6", "Add": "ResidualAdd", "ReduceMean": "GlobalAveragePool", "Gemm": "Linear",
    "MatMul": "Linear",
}  # fmt: skip
_NO_LAYER = ("Constant", "Flatten", "Identity")
_MONO = {"family": "monospace", "ha": "left"}


def short_name(name: str) -> str:
    """A tensor's name without those parts of its path that the next part repeats; different names stay different.

    "/features/features.1/conv/conv.0/conv.0.0/Conv_output_0" → "features.1/conv.0.0/Conv_output_0"
    """
    parts = [part for part in name.split("/") if part]
    pairs = zip(parts, [*parts[1:], ""], strict=True)
    return "/".join(part for part, after in pairs if not after.startswith(f"{part}.") and part != after) or name


def onnx_parts(onnx_graph: GraphProto, node: int = 0) -> Drawing:
    """Node number `node` with its attributes, what it reads and writes, and the first node that reads its output.

    ValueError if no node reads it.
    """
    chosen = onnx_graph.node[node]
    readers = [one for one in onnx_graph.node if chosen.output[0] in one.input]
    if not readers:
        raise ValueError(f"node: expected one whose output another node reads, got {node}")
    stored = {tensor.name: tuple(tensor.dims) for tensor in onnx_graph.initializer}
    figure, axes = canvas(40, 14.2)
    middle, lines = 5.2, [f"{a.name} = {helper.get_attribute_value(a)}" for a in chosen.attribute]
    for row, name in enumerate(chosen.input):
        y = 2.0 + 3.2 * row
        _tensor(axes, 0.4, y, name, stored.get(name))
        arrow(axes, (11.3, y + 1.0), (13.9, max(2.6, min(8.6, y + 1.0))))
    frame(axes, 14, 1.4, 10.4, 2.6 + 1.1 * len(lines), INK, 0.4)
    text(axes, 19.2, 2.5, chosen.op_type, 13, weight="bold")
    for row, words in enumerate(lines):
        text(axes, 14.5, 4.0 + 1.1 * row, words, 10, color=DARK_GREEN, family="monospace", ha="left")
    arrow(axes, (24.5, middle), (34.4, middle), BLUE)
    text(axes, 29.4, middle - 0.8, "…/" + short_name(chosen.output[0]).rpartition("/")[2], 10, color=BLUE)
    _reader(axes, onnx_graph, readers[0], middle, chosen.output[0])
    for x, y, words, colour in (
        (5.8, 12.4, "tensors with a name and a value:\ninitializers", ORANGE),
        (19.2, 12.4, "a node, with its op_type\nand its attributes", DARK_GREEN),
        (29.4, middle + 1.3, "a tensor that one node\nwrites, and others read", BLUE),
    ):
        text(axes, x, y, words, 10, color="#8a5f00" if colour == ORANGE else colour)
    known = [f"{name} of shape {stored[name]}" for name in chosen.input if name in stored]
    others = ", ".join(name for name in chosen.input if name not in stored)
    return Drawing(
        figure,
        f"A {chosen.op_type} node with the attributes {', '.join(lines) or 'none'}. It reads the tensor {others} and"
        f" the initializers {' and '.join(known) or 'none'}. Its output is read by a {readers[0].op_type} node.",
    )


def _tensor(axes: Any, x: float, y: float, name: str, dims: tuple[int, ...] | None) -> None:
    """Draw a tensor by its name: an initializer as a box with its shape, any other as an open box."""
    if dims is None:
        frame(axes, x, y + 0.2, 10.9, 1.6, BLUE, 0.6)
        text(axes, x + 5.4, y + 1.0, short_name(name), 11)
        return
    cell(axes, x, y, 10.9, 2.3, ORANGE)
    text(axes, x + 5.4, y + 0.75, name, 11)
    text(axes, x + 5.4, y + 1.6, f"shape {dims}", 10)


def _reader(axes: Any, onnx_graph: GraphProto, node: NodeProto, y: float, name: str) -> None:
    """Draw a node at the right edge and, below it, the nodes that write its other inputs."""
    frame(axes, 34.5, y - 1.4, 5.1, 2.8, INK, 0.4)
    text(axes, 37.05, y, node.op_type, 13, weight="bold")
    writers = {output: one for one in onnx_graph.node for output in one.output}
    others = [writers[one] for one in node.input if one in writers and one != name][:2]
    for place, one in enumerate(others):
        x = 31.8 + 4.1 * place
        frame(axes, x, y + 4.6, 3.8, 2.0, INK, 0.4)
        text(axes, x + 1.9, y + 5.6, one.op_type, 10)
        arrow(axes, (x + 1.9, y + 4.5), (36.2 + 1.4 * place, y + 1.5), BLUE)


def links(onnx_graph: GraphProto, tensor: str) -> Drawing:
    """The node that writes a tensor and the nodes that read it, as in the file; the name links them.

    ValueError if no node writes or reads the tensor.
    """
    numbered = list(enumerate(onnx_graph.node))
    writer = next((number for number, one in numbered if tensor in one.output), None)
    readers = [number for number, one in numbered if tensor in one.input]
    if writer is None or not readers:
        raise ValueError(f"tensor: expected one that nodes write and read, got {tensor!r}")
    rows = [onnx_graph.node[number] for number in (writer, *readers)]
    figure, axes = canvas(40, 1.6 + sum(1.6 + 1.1 * len(one.input) for one in rows))
    for x, words in ((0.6, "node"), (8.0, "reads"), (26.4, "writes")):
        text(axes, x, 0.8, words, 11, ha="left", weight="bold")
    y, start = 1.6, 0.0
    for number, one in zip((writer, *readers), rows, strict=True):
        height = 1.0 + 1.1 * len(one.input)
        cell(axes, 0.3, y, 39.4, height)
        text(axes, 0.6, y + 1.0, f"{number:>3}  {one.op_type}", 11, ha="left")
        for row, name in enumerate(one.input):
            look = {"color": BLUE, "weight": "bold"} if name == tensor else {"color": GREY}
            text(axes, 8.0, y + 1.0 + 1.1 * row, short_name(name), 10, ha="left", **look)
            if name == tensor:
                arrow(axes, (24.4, y + 1.0 + 1.1 * row), (20.8, y + 1.0 + 1.1 * row), BLUE)
                end = y + 1.0 + 1.1 * row
        look = {"color": BLUE, "weight": "bold"} if one.output[0] == tensor else {"color": GREY}
        text(axes, 26.4, y + 1.0, short_name(one.output[0]), 10, ha="left", **look)
        start = y + 1.0 if one.output[0] == tensor else start
        y += height + 0.6
    axes.plot([26.2, 24.4, 24.4], [start, start, end], color=BLUE, linewidth=1.3)
    reading = " and ".join(f"{number} ({one.op_type})" for number, one in zip(readers, rows[1:], strict=True))
    return Drawing(
        figure,
        f"Node {writer} ({rows[0].op_type}) lists the tensor {short_name(tensor)} among its outputs."
        f" Node {reading} {'lists' if len(readers) == 1 else 'list'} the same name among the inputs."
        " The name is the only link between them.",
    )


# ---- The walk


@dataclass
class _State:
    """What a walk has found after some nodes: {output: [kind, inputs, weights]} and the tensors with other names."""

    layers: dict[str, list[Any]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)


def _walked(nodes: Sequence[NodeProto], known: set[str]) -> _State:
    state = _State()
    for node in nodes:
        inputs = [state.same.get(name, name) for name in node.input if name not in known]
        constants = [name for name in node.input if name in known]
        if node.op_type == "Add" and constants:
            state.layers[inputs[0]][2].append(constants[0])
        if node.op_type in _NO_LAYER or (node.op_type == "Add" and constants):
            if inputs:
                state.same[node.output[0]] = inputs[0]
            continue
        weights = constants if node.op_type in ("Conv", "Gemm", "MatMul") else []
        state.layers[node.output[0]] = [_KINDS.get(node.op_type, node.op_type), inputs, [*weights]]
    return state


def walk(onnx_graph: GraphProto, step: int) -> Drawing:
    """The walk through a small ONNX graph just after node number `step`: the list of nodes, the layers, `same`.

    What this step has changed is drawn in bold. ValueError for a number without a node.
    """
    nodes, known = list(onnx_graph.node), {tensor.name for tensor in onnx_graph.initializer}
    known |= {node.output[0] for node in nodes if node.op_type == "Constant"}
    if not 0 <= step < len(nodes):
        raise ValueError(f"step must be a node from 0 to {len(nodes) - 1}, got {step}")
    before, after = _walked(nodes[:step], known), _walked(nodes[: step + 1], known)
    rows = max(len(nodes), len(after.layers) + len(after.same) + 3)
    figure, axes = canvas(40, 2.6 + 1.3 * rows)
    text(axes, 0.6, 0.9, "nodes in the file", 11, ha="left", weight="bold")
    for row, node in enumerate(nodes):
        y = 2.4 + 1.3 * row
        if row == step:
            cell(axes, 0.3, y - 0.6, 16.4, 1.2, BLUE)
        words = f"{row} {node.op_type:<17} {', '.join(node.input)} → {node.output[0]}"
        text(axes, 0.6, y, words, 10, color=GREY if row > step else INK, **_MONO)
    arrow(axes, (17.0, 2.4 + 1.3 * step), (19.0, 2.4 + 1.3 * step), BLUE)
    y = 0.9
    text(axes, 19.6, y, f"layers, after node {step}", 11, ha="left", weight="bold")
    for name, (kind, inputs, weights) in after.layers.items():
        y += 1.3
        new = before.layers.get(name) != [kind, inputs, weights]
        words = f"{name}: {kind}, reads {', '.join(inputs)}" + (f", weights {', '.join(weights)}" if weights else "")
        text(
            axes, 19.6, y + 0.2, words, 10, color=DARK_RED if new else INK, weight="bold" if new else "normal", **_MONO
        )
    y += 2.2
    text(axes, 19.6, y, "same", 11, ha="left", weight="bold")
    for name, other in after.same.items():
        y += 1.3
        new = name not in before.same
        words = f"{name} has the numbers of {other}"
        text(
            axes, 19.6, y + 0.2, words, 10, color=DARK_RED if new else INK, weight="bold" if new else "normal", **_MONO
        )
    listed = "; ".join(
        f"{name} is a {kind} that reads {', '.join(inputs)}"
        + (f" with weights {', '.join(weights)}" if weights else "")
        for name, (kind, inputs, weights) in after.layers.items()
    )
    renamed = "; ".join(f"{name} has the numbers of {other}" for name, other in after.same.items())
    return Drawing(
        figure,
        f"The walk has read nodes 0 to {step} of {len(nodes)}; the last one is of the type {nodes[step].op_type}."
        f" The layers so far: {listed}. In same: {renamed or 'nothing'}.",
    )


# ---- Padding


def paddings(size: int, kernel: int, stride: int, places: Mapping[str, tuple[int, int]]) -> Drawing:
    """The windows of a convolution over `size` inputs a, b, c, … in one dimension, one row of places per padding.

    size: at most 20. places: {label: (before, after)}, the padding. ValueError if it leaves no room for a window.
    """
    positive(size=size, kernel=kernel, stride=stride)
    if size > 20:
        raise ValueError(f"size must be at most 20 inputs, got {size}")
    counts = {}
    for label, (before, after) in places.items():
        counts[label] = (before + size + after - kernel) // stride + 1
        if counts[label] < 1:
            raise ValueError(f"places: {label!r} leaves no room for a window of {kernel}")
    most = max(before for before, _ in places.values())
    count = most + size + max(after for _, after in places.values())
    wide = min(2.4, 26.0 / count)
    left = 9.0
    figure, axes = canvas(40, 0.6 + sum(2.6 + 0.9 * count for count in counts.values()))
    y = 0.6
    for label, (before, after) in places.items():
        text(axes, 0.6, y + 0.75, label, 11, ha="left", weight="bold")
        first = left + (most - before) * wide
        for place in range(-before, size + after):
            inside = 0 <= place < size
            cell(axes, first + (place + before) * wide, y, wide, 1.5, BLUE if inside else PAPER)
            words = chr(ord("a") + place) if inside else "0"
            text(axes, first + (place + before + 0.5) * wide, y + 0.75, words, 11)
        for window in range(counts[label]):
            start, row = first + window * stride * wide, y + 2.0 + 0.9 * window
            axes.plot([start + 0.15, start + kernel * wide - 0.15], [row, row], color=GREEN, linewidth=4)
            text(axes, first + (before + size + after) * wide + 0.6, row, f"output {window}", 10, ha="left")
        y += 2.6 + 0.9 * counts[label]
    said = "; ".join(
        f"{label}: {before} before and {after} after, {counts[label]} outputs"
        for label, (before, after) in places.items()
    )
    return Drawing(
        figure,
        f"{size} inputs in one dimension, a window of {kernel} that moves by {stride}. Padding is drawn as places with"
        f" a 0, before and after the inputs. {said}. The more padding stands before the inputs, the earlier the windows"
        " begin.",
    )
