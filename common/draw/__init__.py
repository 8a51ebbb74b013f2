"""Drawings of how a GPU works, from real parameters: one function per drawing.

    draw.grid(blocks=4, threads=64)          a grid, one of its blocks, its warps, its threads with their indices
    draw.guard(n=10, threads=4)              the threads beyond the end of an array
    draw.matrix(5, 7, (4, 2))                a two-dimensional grid over a matrix
    draw.grid_stride(n=20, threads=8)        which thread processes which element in which iteration
    draw.tree(values)                        a sum in shared memory, step by step
    draw.launches(13.4, 70.3, 3)             host and GPU on a timeline
    draw.latency(card.measured())            latency hiding: one thread that waits, and many that overlap
    draw.memory(card.measured())             registers, shared memory, L2, global memory: sizes and bandwidths
    draw.strips((1, 3, 2, 2))                NCHW and NHWC as strips of memory, with strides
    draw.column_major(2, 3)                  a row-major matrix, as BLAS reads it
    draw.cudnn_graph(graphs)                 the parts of one cuDNN graph, or of two

Each returns a Drawing, which a notebook displays: a Matplotlib figure with alternative text.
"""

from .canvas import Drawing
from .execution import grid, grid_stride, guard, matrix
from .hardware import latency, memory
from .libraries import column_major, cudnn_graph, strips
from .reduction import tree
from .timeline import launches

__all__ = [
    "Drawing",
    "column_major",
    "cudnn_graph",
    "grid",
    "grid_stride",
    "guard",
    "latency",
    "launches",
    "matrix",
    "memory",
    "strips",
    "tree",
]
