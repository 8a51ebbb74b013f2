"""What libraries are told about memory: layouts, column-major matrices, and the parts of a cuDNN graph."""

from itertools import product
from typing import Any

from ..cuda import layout as layouts
from ..cudnn.graphs import Graph
from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, Drawing, arrow, canvas, cell, frame, positive, text

_CHANNELS = (BLUE, ORANGE, GREEN, PURPLE)


def strips(shape: tuple[int, int, int, int] = (1, 3, 2, 2)) -> Drawing:
    """The memory of one (1, C, H, W) array in NCHW and in NHWC, one box per element, with the strides.

    ValueError for more than one image, more than 4 channels or more than 24 elements.
    """
    n, c, h, w = shape
    positive(N=n, C=c, H=h, W=w)
    size = c * h * w
    if n != 1 or c > 4 or size > 24:
        raise ValueError(f"shape must be (1, C, H, W) with at most 4 channels and 24 elements, got {shape}")
    figure, axes = canvas(22, 8.4)
    wide = 17.6 / size
    text(axes, 0.3, 0.6, f"shape (N, C, H, W) = {shape}", 12, ha="left", weight="bold")
    for k in range(c):
        cell(axes, 9.4 + 3 * k, 0.25, 0.7, 0.7, _CHANNELS[k])
        text(axes, 10.3 + 3 * k, 0.6, f"channel {k}", 10, ha="left")
    told = []
    for row, layout in enumerate(layouts.LAYOUTS):
        strides, y = layouts.strides(shape, layout), 2.0 + 3.2 * row
        words = ", ".join(f"{name} {stride}" for name, stride in zip("NCHW", strides, strict=True))
        told.append(f"{layout}: {words}")
        text(axes, 0.3, y + 0.5, layout, 13, ha="left", weight="bold")
        text(axes, 4.0, y - 0.45, f"strides: {words}", 11, ha="left")
        for k, i, j in product(range(c), range(h), range(w)):
            place = k * strides[1] + i * strides[2] + j * strides[3]
            x = 4.0 + place * wide
            cell(axes, x, y, wide, 1.0, _CHANNELS[k])
            text(axes, x + wide / 2, y + 0.5, f"{i},{j}", 10)
            text(axes, x + wide / 2, y + 1.3, str(place), 10, color=GREY)
    text(axes, 0.3, 3.3, "place in memory", 10, ha="left", color=GREY)
    text(axes, 0.3, 7.9, "In a box: row, column of the pixel. The layout is in the strides only.", 10, ha="left")
    return Drawing(
        figure,
        f"An array of shape {shape} as a strip of {size} elements of memory, twice. In NCHW all pixels of channel 0"
        f" come first. In NHWC all channels of pixel 0,0 come first. Strides: {'; '.join(told)}.",
    )


def column_major(rows: int = 2, columns: int = 3) -> Drawing:
    """A row-major matrix, its memory, and the column-major matrix that BLAS reads there: the transpose.

    ValueError for more than 4 rows or columns.
    """
    positive(rows=rows, columns=columns)
    if max(rows, columns) > 4:
        raise ValueError(f"rows and columns must be at most 4, got {rows} and {columns}")
    size, tall = rows * columns, max(rows, columns)
    figure, axes = canvas(22, 3.3 + 0.9 * tall)
    text(axes, 0.4, 0.6, f"NumPy: {rows} × {columns},\nrow by row", 11, ha="left", weight="bold")
    text(axes, 8.2, 0.6, "the memory", 11, ha="left", weight="bold")
    words = f"BLAS: {columns} × {rows}, column by\ncolumn, ld {columns}"
    text(axes, 16.6, 0.6, words, 11, ha="left", weight="bold")
    for i, j in product(range(rows), range(columns)):
        colour, number, place = _CHANNELS[i], f"{i + 1}{j + 1}", i * columns + j
        wide = 7.2 / size
        for x, y, w in (
            (0.4 + 1.2 * j, 1.5 + 0.9 * i, 1.2),
            (8.2 + wide * place, 1.5, wide),
            (16.6 + 1.2 * i, 1.5 + 0.9 * j, 1.2),
        ):
            cell(axes, x, y, w, 0.9, colour)
            text(axes, x + w / 2, y + 0.45, number, 11 if w > 0.8 else 10)
    high = 1.95
    arrow(axes, (0.6 + 1.2 * columns, high), (8.0, high))
    arrow(axes, (15.6, high), (16.4, high))
    note = f"No number moves: what NumPy wrote as a {rows} × {columns} matrix, BLAS reads as its transpose."
    text(axes, 0.4, 2.5 + 0.9 * tall, note, 10, ha="left")
    return Drawing(
        figure,
        f"A {rows} × {columns} matrix lies in memory row by row. BLAS reads the same {size} elements column by column,"
        f" as a {columns} × {rows} matrix with the leading dimension {columns}: each row has become a column, so BLAS"
        " reads the transpose.",
    )


def cudnn_graph(graphs: tuple[Graph, ...]) -> Drawing:
    """One or two cuDNN graphs: their tensors, their chains of nodes, and which tensors have memory.

    ValueError for no graph or more than two.
    """
    if not 1 <= len(graphs) <= 2:
        raise ValueError(f"graphs must be one or two, got {len(graphs)}")
    figure, axes = canvas(24, 4.6 * len(graphs) + 1.3)
    for row, graph in enumerate(graphs):
        _one_graph(axes, graph, 4.6 * row)
    y = 4.6 * len(graphs) + 0.5
    cell(axes, 0.4, y - 0.35, 0.7, 0.7, BLUE)
    text(axes, 1.4, y, "tensor in memory", 10, ha="left")
    frame(axes, 6.2, y - 0.35, 0.7, 0.7, ORANGE)
    text(axes, 7.2, y, "operation (node)", 10, ha="left")
    text(axes, 12.2, y, "→  between nodes: a virtual tensor, without memory", 10, ha="left")
    told = " Then ".join(
        f"{', '.join(t.name for t in graph.tensors)} enter a chain of {len(graph.nodes)} nodes,"
        f" {', '.join(_node(node)[0] for node in graph.nodes)}, and only {graph.output.name} leaves it."
        for graph in graphs
    )
    return Drawing(figure, f"{'A cuDNN graph' if len(graphs) == 1 else 'Two cuDNN graphs'}. {told}")


def _node(node: Any) -> tuple[str, str]:
    """(a node's name, its settings in a short line)."""
    settings = dict(node.attributes)
    if node.op == "conv_fprop":
        return "convolution", f"stride {settings['stride'][0]}, pad {settings['padding'][0]}"
    if node.op == "clamp":
        high = settings["high"]
        return "clamp", f"{settings['low']:g} to {high:g}" if high != float("inf") else f"from {settings['low']:g}"
    return node.op, ""


def _one_graph(axes: Any, graph: Graph, top: float) -> None:
    """Draw one graph from y = top on: its chain in a row, the operands above their nodes."""
    frame(axes, 3.9, top + 1.6, 16.2, 2.7, GREY, 0.3)
    text(axes, 4.2, top + 3.95, "cuDNN graph", 10, ha="left", color=GREY)
    step, y = 15.6 / len(graph.nodes), top + 2.7
    wide = min(3.4, step - 0.6)
    _tensor(axes, 0.2, y - 0.6, graph.tensors[0])
    for k, node in enumerate(graph.nodes):
        x = 4.2 + k * step + (step - wide) / 2
        frame(axes, x, y - 0.7, wide, 1.4, ORANGE, 0.15)
        name, settings = _node(node)
        text(axes, x + wide / 2, y - (0.25 if settings else 0), name, 11, weight="bold")
        text(axes, x + wide / 2, y + 0.32, settings, 10)
        before = 3.4 if k == 0 else x - (step - wide)
        arrow(axes, (before, y), (x, y))
        if node.operand:
            operand = next(t for t in graph.tensors if t.name == node.operand)
            _tensor(axes, x + wide / 2 - 1.6, top + 0.15, operand)
            arrow(axes, (x + wide / 2, top + 1.35), (x + wide / 2, y - 0.7))
    arrow(axes, (4.2 + len(graph.nodes) * step - (step - wide) / 2, y), (20.6, y))
    _tensor(axes, 20.6, y - 0.6, graph.output)


def _tensor(axes: Any, x: float, y: float, tensor: Any) -> None:
    cell(axes, x, y, 3.2, 1.2, BLUE)
    text(axes, x + 1.6, y + 0.36, tensor.name, 10.5, weight="bold")
    text(axes, x + 1.6, y + 0.84, "×".join(map(str, tensor.shape)), 10)
