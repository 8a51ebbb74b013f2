"""Drawings of a network's layers and of how a GPU works, from real parameters: one function per drawing.

    draw.whole_way()                         the course: what goes into each chapter, what comes out, the engine's files
    draw.block(32, 192, 32, stride=1)        an inverted residual: its tensors and its layers
    draw.convolutions(channels=4)            dense, grouped, depthwise and pointwise convolution, and their weights
    draw.windows(size=8, kernel=3)           where a convolution's window fits
    draw.receptive_field([(3, 2), (3, 1)])   the inputs that one output sees
    draw.outputs(draw.convolution_outputs(network))   the elements that each convolution of MobileNetV2 writes
    draw.grid(blocks=4, threads=64)          a grid, one of its blocks, its warps, its threads with their indices
    draw.guard(n=10, threads=4)              the threads beyond the end of an array
    draw.matrix(5, 7, (4, 2))                a two-dimensional grid over a matrix
    draw.grid_stride(n=20, threads=8)        which thread processes which element in which iteration
    draw.tree(values)                        a sum in shared memory, step by step
    draw.launches(13.4, 70.3, 3)             host and GPU on a timeline
    draw.latency(card.measured())            latency hiding: one thread that waits, and many that overlap
    draw.memory(card.measured())             registers, shared memory, L2, global memory: sizes and bandwidths

Each returns a Drawing, which a notebook displays: a Matplotlib figure with alternative text.
"""

from .canvas import Drawing
from .course import whole_way
from .execution import grid, grid_stride, guard, matrix
from .hardware import latency, memory
from .layers import block, convolution_outputs, convolutions, outputs, receptive_field, windows
from .reduction import tree
from .timeline import launches

__all__ = [
    "Drawing",
    "block",
    "convolution_outputs",
    "convolutions",
    "grid",
    "grid_stride",
    "guard",
    "latency",
    "launches",
    "matrix",
    "memory",
    "outputs",
    "receptive_field",
    "tree",
    "whole_way",
    "windows",
]
