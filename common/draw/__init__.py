"""Drawings of how a GPU works and of how a network and its numbers are stored, from real parameters.

    draw.grid(blocks=4, threads=64)          a grid, one of its blocks, its warps, its threads with their indices
    draw.guard(n=10, threads=4)              the threads beyond the end of an array
    draw.matrix(5, 7, (4, 2))                a two-dimensional grid over a matrix
    draw.grid_stride(n=20, threads=8)        which thread processes which element in which iteration
    draw.tree(values)                        a sum in shared memory, step by step
    draw.launches(13.4, 70.3, 3)             host and GPU on a timeline
    draw.latency(card.measured())            latency hiding: one thread that waits, and many that overlap
    draw.memory(card.measured())             registers, shared memory, L2, global memory: sizes and bandwidths
    draw.tensor_fields(tensor)               the fields of an ONNX initializer, filled or empty
    draw.row_major((16, 3, 3, 3), raw)       bytes, numbers and dimensions of an array
    draw.weight_layouts((2, 3, 2, 2))        a convolution's weight in memory, OIHW and OHWI
    draw.onnx_parts(onnx_graph)              a node, its attributes, its initializers, and the tensor that it writes
    draw.links(onnx_graph, "tensor")         the node that writes a tensor, and those that read it
    draw.walk(onnx_graph, step)              what a walk through the nodes has found after one of them
    draw.paddings(4, 3, 2, {"": (0, 1)})     windows of a convolution in one dimension, by the padding before and after

Each returns a Drawing, which a notebook displays: a Matplotlib figure with alternative text.
"""

from .canvas import Drawing
from .execution import grid, grid_stride, guard, matrix
from .hardware import latency, memory
from .networks import links, onnx_parts, paddings, short_name, walk
from .reduction import tree
from .tensors import row_major, tensor_fields, weight_layouts
from .timeline import launches

__all__ = [
    "Drawing", "grid", "grid_stride", "guard", "latency", "launches", "links", "matrix", "memory", "onnx_parts",
    "paddings", "row_major", "short_name", "tensor_fields", "tree", "walk", "weight_layouts",
]  # fmt: skip
